// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <xxhash.h>

#include <array>

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

namespace {

// Remainders of each byte under the reflected polynomial.
constexpr std::array<std::uint32_t, 256> kRemainders = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ ((rest & 1) != 0 ? 0x82F63B78u : 0);
    table[byte] = rest;
  }
  return table;
}();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t rest = ~0u;
  for (const char c : bytes) {
    rest = rest >> 8 ^ kRemainders[(rest ^ static_cast<unsigned char>(c)) & 0xFF];
  }
  return ~rest;
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
