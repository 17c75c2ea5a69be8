// SPDX-License-Identifier: Apache-2.0
//
// Checksums that formats of other programs carry. Our own files use hash.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace zaya {

// CRC-32 as in zip and gzip: polynomial 0xedb88320 (reflected), start and end inverted.
std::uint32_t crc32(std::span<const std::byte> bytes);

// Lower-case hexadecimal digest by the name that Python's hashlib and xxhash modules give it: sha1,
// xxh32, xxh64, xxh3_64, xxh3_128, xxh128. None for a name that is not known here.
std::optional<std::string> hex_digest(std::string_view algorithm, std::span<const std::byte> bytes);

}  // namespace zaya
