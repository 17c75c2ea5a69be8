// SPDX-License-Identifier: Apache-2.0
#include "base/stream_copy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace zaya {
namespace {

TEST_CASE("every byte is copied and no other is touched, whatever the addresses") {
  std::vector<unsigned char> from(400), to(400);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(1 + i % 250);
  for (const std::size_t count : {0, 1, 15, 63, 64, 65, 127, 128, 200, 257}) {
    for (const std::size_t source : {0, 1, 17}) {
      for (const std::size_t target : {0, 5, 48, 64}) {
        std::fill(to.begin(), to.end(), static_cast<unsigned char>(0));
        copy_past_caches(to.data() + target, from.data() + source, count);
        for (std::size_t i = 0; i < to.size(); ++i) {
          const bool is_inside = i >= target && i < target + count;
          REQUIRE(to[i] == (is_inside ? from[source + i - target] : 0));
        }
      }
    }
  }
}

}  // namespace
}  // namespace zaya
