// SPDX-License-Identifier: Apache-2.0
#include "base/checksums.h"

#include <xxhash.h>

#include <array>
#include <bit>
#include <cstring>

namespace zaya {

namespace {

// Tables for eight bytes at a time: table[k][b] is the remainder of byte b followed by k zeros.
using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr CrcTables make_crc_tables() {
  CrcTables tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
    tables[0][b] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t before = tables[k - 1][b];
      tables[k][b] = (before >> 8) ^ tables[0][before & 255];
    }
  }
  return tables;
}

constexpr CrcTables kCrcTables = make_crc_tables();

std::uint32_t load_be32(const unsigned char* p) {
  return std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 | std::uint32_t{p[2]} << 8 | p[3];
}

// FIPS 180-4, section 6.1: one block of 64 bytes.
void sha1_block(const unsigned char* block, std::array<std::uint32_t, 5>& h) {
  std::uint32_t w[80];
  for (int t = 0; t < 16; ++t) w[t] = load_be32(block + 4 * t);
  for (int t = 16; t < 80; ++t) w[t] = std::rotl(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
  std::uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
  for (int t = 0; t < 80; ++t) {
    std::uint32_t f, k;
    if (t < 20) {
      f = (b & c) | (~b & d), k = 0x5a827999;
    } else if (t < 40) {
      f = b ^ c ^ d, k = 0x6ed9eba1;
    } else if (t < 60) {
      f = (b & c) | (b & d) | (c & d), k = 0x8f1bbcdc;
    } else {
      f = b ^ c ^ d, k = 0xca62c1d6;
    }
    const std::uint32_t next = std::rotl(a, 5) + f + e + k + w[t];
    e = d, d = c, c = std::rotl(b, 30), b = a, a = next;
  }
  h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e;
}

std::string to_hex(std::uint64_t value, int num_digits) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (int i = num_digits - 1; i >= 0; --i) text += kDigits[(value >> (4 * i)) & 15];
  return text;
}

std::string sha1(std::span<const std::byte> bytes) {
  std::array<std::uint32_t, 5> h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  const std::size_t whole = bytes.size() / 64 * 64, rest = bytes.size() - whole;
  for (std::size_t at = 0; at < whole; at += 64) sha1_block(data + at, h);
  // The rest, a one bit, zeros and the number of bits fill one or two more blocks.
  std::array<unsigned char, 128> last{};
  if (rest > 0) std::memcpy(last.data(), data + whole, rest);
  last[rest] = 0x80;
  const std::size_t end = rest < 56 ? 64 : 128;
  const std::uint64_t num_bits = std::uint64_t{bytes.size()} * 8;
  for (std::size_t i = 0; i < 8; ++i) {
    last[end - 1 - i] = static_cast<unsigned char>(num_bits >> (8 * i));
  }
  for (std::size_t at = 0; at < end; at += 64) sha1_block(last.data() + at, h);
  std::string text;
  for (const std::uint32_t word : h) text += to_hex(word, 8);
  return text;
}

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xffffffffu;
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint32_t low, high;
    std::memcpy(&low, bytes.data() + at, 4);
    std::memcpy(&high, bytes.data() + at + 4, 4);
    low ^= crc;
    crc = kCrcTables[7][low & 255] ^ kCrcTables[6][(low >> 8) & 255] ^
          kCrcTables[5][(low >> 16) & 255] ^ kCrcTables[4][low >> 24] ^ kCrcTables[3][high & 255] ^
          kCrcTables[2][(high >> 8) & 255] ^ kCrcTables[1][(high >> 16) & 255] ^
          kCrcTables[0][high >> 24];
  }
  for (; at < bytes.size(); ++at) {
    crc = (crc >> 8) ^ kCrcTables[0][(crc ^ static_cast<std::uint32_t>(bytes[at])) & 255];
  }
  return ~crc;
}

std::optional<std::string> hex_digest(std::string_view algorithm,
                                      std::span<const std::byte> bytes) {
  const void* data = bytes.data();
  const std::size_t size = bytes.size();
  if (algorithm == "sha1") return sha1(bytes);
  if (algorithm == "xxh32") return to_hex(XXH32(data, size, 0), 8);
  if (algorithm == "xxh64") return to_hex(XXH64(data, size, 0), 16);
  if (algorithm == "xxh3_64") return to_hex(XXH3_64bits(data, size), 16);
  if (algorithm == "xxh3_128" || algorithm == "xxh128") {
    const XXH128_hash_t hash = XXH3_128bits(data, size);
    return to_hex(hash.high64, 16) + to_hex(hash.low64, 16);
  }
  return std::nullopt;
}

}  // namespace zaya
