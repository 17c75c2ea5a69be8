// SPDX-License-Identifier: Apache-2.0
//
// Arrays of numpy. Any bytes are refused, or are a header and exactly the values that it states.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "data/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file = std::as_bytes(std::span(data, size));
  try {
    const zaya::NpyHeader header = zaya::parse_npy(file, "input");
    const zaya::Index count = header.num_values();
    ZAYA_CHECK(zaya::is_npy(file));
    ZAYA_CHECK(count >= 0 && header.rows >= 0 && header.columns >= 0);
    ZAYA_CHECK(header.data_offset + static_cast<std::size_t>(count * header.format.bytes) == size);
    std::int64_t sum = 0;
    for (zaya::Index i = 0; i < count; ++i) {
      sum ^= zaya::integer_at(header.format, file.data() + header.data_offset, i);
    }
    ZAYA_CHECK(count > 0 || sum == 0);
  } catch (const zaya::Error& error) {
    ZAYA_CHECK(error.kind() == zaya::ErrorKind::damaged);
    ZAYA_CHECK(error.message().find('\n') == std::string::npos);
  }
  return 0;
}
