// SPDX-License-Identifier: Apache-2.0
#include "base/checksums.h"

#include <doctest/doctest.h>

namespace zaya {

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

TEST_CASE("CRC-32 gives the check value of its definition, and a byte at a time the same") {
  CHECK(crc32(bytes_of("123456789")) == 0xcbf43926u);
  CHECK(crc32({}) == 0);
  CHECK(crc32(bytes_of("a")) == 0xe8b7be43u);
  CHECK(crc32(bytes_of("The quick brown fox jumps over the lazy dog")) == 0x414fa339u);
}

TEST_CASE("digests are those of hashlib and xxhash") {
  CHECK(hex_digest("sha1", {}) == "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  CHECK(hex_digest("sha1", bytes_of("abc")) == "a9993e364706816aba3e25717850c26c9cd0d89d");
  // 56 bytes: the length no longer fits the last block.
  CHECK(hex_digest("sha1", bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  CHECK(hex_digest("xxh32", bytes_of("")) == "02cc5d05");
  CHECK(hex_digest("xxh64", bytes_of("")) == "ef46db3751d8e999");
  CHECK(hex_digest("xxh64", bytes_of("a")) == "d24ec4f1a98c6e5b");
  CHECK(hex_digest("xxh3_64", bytes_of("")) == "2d06800538d394c2");
  CHECK(hex_digest("xxh128", bytes_of("")) == "99aa06d3014798d86001c324468d497f");
  CHECK(hex_digest("sha1024", bytes_of("")) == std::nullopt);
}

}  // namespace zaya
