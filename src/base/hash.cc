// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <xxhash.h>

#include "base/check.h"

namespace zaya {

std::uint64_t hash64(std::string_view bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Hash128 hash128(std::span<const std::byte> bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.low64, h.high64};
}

Hash128 hash128(std::string_view bytes) {
  return hash128(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

std::string to_hex(Hash128 hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out(32, '0');
  for (int i = 0; i < 16; ++i) {
    out[i] = kDigits[(hash.high >> (60 - 4 * i)) & 15];
    out[16 + i] = kDigits[(hash.low >> (60 - 4 * i)) & 15];
  }
  return out;
}

struct Hasher::State {
  XXH3_state_t* xxh = nullptr;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  state_->xxh = XXH3_createState();
  ZAYA_CHECK(state_->xxh != nullptr);
  XXH3_128bits_reset(state_->xxh);
}

Hasher::~Hasher() {
  if (state_) XXH3_freeState(state_->xxh);
}

Hasher::Hasher(Hasher&&) noexcept = default;

void Hasher::add(const void* data, std::size_t num_bytes) {
  XXH3_128bits_update(state_->xxh, data, num_bytes);
}

void Hasher::add(std::string_view text) { add(text.data(), text.size()); }

Hash128 Hasher::finish() const {
  const XXH128_hash_t h = XXH3_128bits_digest(state_->xxh);
  return {h.low64, h.high64};
}

}  // namespace zaya
