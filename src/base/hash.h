// SPDX-License-Identifier: Apache-2.0
//
// Checksums and digests: XXH3 with 64 and 128 bits; CRC-32C where a format asks for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace zaya {

struct Hash128 {
  std::uint64_t low = 0, high = 0;
  bool operator==(const Hash128&) const = default;
};

std::uint64_t hash64(std::string_view bytes, std::uint64_t seed = 0);
Hash128 hash128(std::span<const std::byte> bytes);
Hash128 hash128(std::string_view bytes);

// Castagnoli's CRC of 32 bits, a byte at a time: for small records.
std::uint32_t crc32c(std::string_view bytes);

// 32 hexadecimal digits, high word first (the canonical form of XXH3-128).
std::string to_hex(Hash128 hash);

// A digest over many pieces; equal to hash128 of their concatenation.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  void add(const void* data, std::size_t num_bytes);
  void add(std::string_view text);
  Hash128 finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zaya
