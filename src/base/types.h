// SPDX-License-Identifier: Apache-2.0
//
// Integer types that every folder uses.
#pragma once

#include <cstdint>

namespace zaya {

// Sizes, positions and counts of elements; always 64 bit, so that products do not overflow.
using Index = std::int64_t;

}  // namespace zaya
