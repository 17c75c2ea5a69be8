// SPDX-License-Identifier: Apache-2.0
//
// bfloat16 storage: the upper half of an IEEE float. Conversion rounds to nearest, ties to even;
// NaN stays NaN (quiet). Arithmetic is done in float.
#pragma once

#include <cstdint>
#include <cstring>

namespace zaya {

struct bf16 {
  std::uint16_t bits;

  bf16() = default;
  explicit bf16(float x) {
    std::uint32_t u;
    std::memcpy(&u, &x, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<std::uint16_t>((u >> 16) | 0x0040u);
    } else {
      bits = static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const {
    const std::uint32_t u = static_cast<std::uint32_t>(bits) << 16;
    float x;
    std::memcpy(&x, &u, 4);
    return x;
  }
};

static_assert(sizeof(bf16) == 2);

}  // namespace zaya
