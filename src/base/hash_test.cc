// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <doctest/doctest.h>

#include <string>

namespace zaya {

TEST_CASE("CRC-32C gives the values that RFC 3720 and the catalogue of checksums state") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xE3069283u);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAu);
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43u);
}

TEST_CASE("a digest over pieces is the digest of the whole") {
  Hasher hasher;
  hasher.add("low");
  hasher.add("est");
  CHECK(hasher.finish() == hash128(std::string_view("lowest")));
  CHECK(to_hex(hash128(std::string_view())) == "99aa06d3014798d86001c324468d497f");
}

}  // namespace zaya
