// SPDX-License-Identifier: Apache-2.0
//
// Functions of 16 lanes (part of simd.h).
#pragma once

#include "backend/cpu/simd.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

// e^x within 2 units in the last place; overflows to infinity, underflows through denormals to
// zero; NaN stays NaN. x = n ln 2 + r with |r| <= ln(2)/2, polynomial of degree 6 in r (Cephes).
ZAYA_INLINE f32x16 exp(f32x16 x) {
  x = select(x > 89.0f, broadcast(89.0f), x);
  x = select(x < -104.0f, broadcast(-104.0f), x);
  const f32x16 magic = broadcast(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const f32x16 shifted = x * 1.44269504088896341f + magic;
  const i32x16 n = bits_of(shifted) - bits_of(magic);
  const f32x16 whole = shifted - magic;
  const f32x16 r = (x - whole * 0.693359375f) - whole * -2.12194440e-4f;
  f32x16 p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  // 2^n in two factors, for n may lie outside the range of exponents.
  const i32x16 half = n >> 1;
  const f32x16 a = float_of_bits((half + broadcast_int(127)) << 23);
  const f32x16 b = float_of_bits((n - half + broadcast_int(127)) << 23);
  return p * a * b;
}

// erf within 1e-7; NaN stays NaN. Below 1: x + x times a polynomial in x^2; from 1 on, 1 - e^-q
// with a polynomial q(|x|). Both are minimax fits.
ZAYA_INLINE f32x16 erf(f32x16 x) {
  const f32x16 z = x * x;
  f32x16 p = z * 7.675962842768058e-05f - 7.952354499138892e-4f;
  p = p * z + 5.181106273084879e-3f;
  p = p * z - 2.6849498972296715e-2f;
  p = p * z + 0.11283461004495621f;
  p = p * z - 0.37612611055374146f;
  p = p * z + 0.12837916709551257f;
  const f32x16 size = abs(x);
  const f32x16 a = select(size > 4.0f, broadcast(4.0f), size);  // erf(4) rounds to 1
  f32x16 q = a * -1.5423435252159834e-4f + 2.639030572026968e-3f;
  q = q * a - 2.0630981773138046e-2f;
  q = q * a + 0.1006428524851799f;
  q = q * a + 0.6409159302711487f;
  q = q * a + 1.1254593133926392f;
  q = q * a + 7.3360645910725e-4f;
  const f32x16 far = 1.0f - exp(-q);
  return select(size < 1.0f, p * x + x, select(x < 0.0f, -far, far));
}

}  // namespace zaya::ZAYA_SIMD_NAMESPACE
