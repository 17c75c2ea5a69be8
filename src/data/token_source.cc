// SPDX-License-Identifier: Apache-2.0
#include "data/token_source.h"

namespace zaya {

std::int64_t integer_at(const IntegerFormat& format, const std::byte* data, Index i) {
  const std::byte* at = data + i * format.bytes;
  std::uint64_t bits = 0;
  for (int b = 0; b < format.bytes; ++b) {
    const int place = format.is_big_endian ? format.bytes - 1 - b : b;
    bits |= static_cast<std::uint64_t>(at[b]) << (8 * place);
  }
  if (!format.is_signed || format.bytes == 8) return static_cast<std::int64_t>(bits);
  const int unused = 64 - 8 * format.bytes;
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string shown;
  for (const char c : text.substr(0, kMost)) shown += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > kMost ? shown + "..." : shown;
}

}  // namespace zaya
