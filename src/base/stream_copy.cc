// SPDX-License-Identifier: Apache-2.0
#include "base/stream_copy.h"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace zaya {

#if defined(__SSE2__)
void copy_past_caches(void* to, const void* from, std::size_t num_bytes) {
  constexpr std::size_t kLine = 64;
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const std::size_t lead = -reinterpret_cast<std::uintptr_t>(target) % kLine;
  const std::size_t head = lead < num_bytes ? lead : num_bytes;
  std::memcpy(target, source, head);
  std::size_t at = head;
  for (; at + kLine <= num_bytes; at += kLine) {
    const auto* line = reinterpret_cast<const __m128i*>(source + at);
    auto* out = reinterpret_cast<__m128i*>(target + at);
    const __m128i a = _mm_loadu_si128(line), b = _mm_loadu_si128(line + 1);
    const __m128i c = _mm_loadu_si128(line + 2), d = _mm_loadu_si128(line + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  std::memcpy(target + at, source + at, num_bytes - at);
  _mm_sfence();
}
#else
void copy_past_caches(void* to, const void* from, std::size_t num_bytes) {
  std::memcpy(to, from, num_bytes);
}
#endif

}  // namespace zaya
