// SPDX-License-Identifier: Apache-2.0
//
// Loads, stores and folds of 16 lanes (part of simd.h). Addresses need no alignment. Forms with a
// count touch `count` < 16 elements; the other lanes read as zero. bf16 elements are their bits.
#pragma once

#include "backend/cpu/simd.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

#if defined(__AVX512F__)
ZAYA_INLINE __mmask16 first_lanes(Index count) {
  return static_cast<__mmask16>((1u << count) - 1u);
}
#endif

// Register by register: a copy of the whole struct would go through the stack.
ZAYA_INLINE f32x16 load(const float* from) {
  f32x16 x;
  ZAYA_PARTS __builtin_memcpy(&x.part[i], from + i * kRegisterLanes, sizeof x.part[i]);
  return x;
}
ZAYA_INLINE void store(float* to, f32x16 x) {
  ZAYA_PARTS __builtin_memcpy(to + i * kRegisterLanes, &x.part[i], sizeof x.part[i]);
}

ZAYA_INLINE f32x16 load(const float* from, Index count) {
#if defined(__AVX512F__)
  return {{_mm512_maskz_loadu_ps(first_lanes(count), from)}};
#else
  float lanes[kLanes] = {};
  for (Index i = 0; i < count; ++i) lanes[i] = from[i];
  return load(lanes);
#endif
}
ZAYA_INLINE void store(float* to, f32x16 x, Index count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, first_lanes(count), x.part[0]);
#else
  float lanes[kLanes];
  store(lanes, x);
  for (Index i = 0; i < count; ++i) to[i] = lanes[i];
#endif
}

ZAYA_INLINE f32x16 load(const std::uint16_t* from) {
  i32x16 bits;
#if defined(__AVX512F__)
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  bits.part[0] = reinterpret_cast<IntPart>(_mm512_cvtepu16_epi32(half));
#elif defined(__AVX2__)
  ZAYA_PARTS {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 8 * i));
    bits.part[i] = reinterpret_cast<IntPart>(_mm256_cvtepu16_epi32(half));
  }
#else
  ZAYA_PARTS {
    const __m128i half = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + 4 * i));
    bits.part[i] = reinterpret_cast<IntPart>(_mm_unpacklo_epi16(half, _mm_setzero_si128()));
  }
#endif
  return float_of_bits(bits << 16);
}

// Upper halves of the lanes, rounded to nearest, ties to even; NaN becomes a quiet NaN.
ZAYA_INLINE i32x16 rounded_bits(f32x16 x) {
  const i32x16 bits = bits_of(x);
  const i32x16 odd = (bits >> 16) & broadcast_int(1);
  const i32x16 rounded = bits + broadcast_int(0x7fff) + odd;
  return select(x == x, rounded, bits | broadcast_int(0x00400000)) >> 16;
}
ZAYA_INLINE void store(std::uint16_t* to, f32x16 x) {
  const i32x16 bits = rounded_bits(x);
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(bits.part[0])));
#elif defined(__AVX2__)
  const __m256i packed = _mm256_packs_epi32(reinterpret_cast<__m256i>(bits.part[0]),
                                            reinterpret_cast<__m256i>(bits.part[1]));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(packed, 0xd8));
#else
  for (int i = 0; i < kParts; i += 2) {
    const __m128i packed = _mm_packs_epi32(reinterpret_cast<__m128i>(bits.part[i]),
                                           reinterpret_cast<__m128i>(bits.part[i + 1]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 4 * i), packed);
  }
#endif
}
ZAYA_INLINE f32x16 load(const std::uint16_t* from, Index count) {
#if defined(__AVX512F__)
  const __m256i half = _mm256_maskz_loadu_epi16(first_lanes(count), from);
  return float_of_bits(i32x16{{reinterpret_cast<IntPart>(_mm512_cvtepu16_epi32(half))}} << 16);
#else
  std::uint16_t lanes[kLanes] = {};
  for (Index i = 0; i < count; ++i) lanes[i] = from[i];
  return load(lanes);
#endif
}
ZAYA_INLINE void store(std::uint16_t* to, f32x16 x, Index count) {
  std::uint16_t lanes[kLanes];
  store(lanes, x);
  for (Index i = 0; i < count; ++i) to[i] = lanes[i];
}

// Lanes of 16 at column c of a row of `count` elements, which may end within them.
template <class Element>
ZAYA_INLINE f32x16 load_part(const Element* row, Index c, Index count) {
  return c + kLanes <= count ? load(row + c) : load(row + c, count - c);
}
template <class Element>
ZAYA_INLINE void store_part(Element* row, Index c, Index count, f32x16 x) {
  if (c + kLanes <= count) {
    store(row + c, x);
  } else {
    store(row + c, x, count - c);
  }
}

// Lanes i and i + 8 meet first, then i and i + 4, i and i + 2, 0 and 1.
#define ZAYA_FOLD(op, first)                                                    \
  const __m128 four = fold_to_four(x, [](auto a, auto b) { return op(a, b); }); \
  const __m128 two = op(four, _mm_movehl_ps(four, four));                       \
  return first(two[0], two[1])

template <class Combine>
ZAYA_INLINE __m128 fold_to_four(f32x16 x, Combine combine) {
#if defined(__AVX512F__)
  const __m256 low = _mm512_castps512_ps256(x.part[0]);
  const __m256 eight = combine(low, _mm512_extractf32x8_ps(x.part[0], 1));
  return combine(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#elif defined(__AVX2__)
  const __m256 eight = combine(x.part[0], x.part[1]);
  return combine(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#else
  return combine(combine(x.part[0], x.part[2]), combine(x.part[1], x.part[3]));
#endif
}
template <class Vector>
ZAYA_INLINE Vector add_of(Vector a, Vector b) {
  return a + b;
}
// b where it is larger.
template <class Vector>
ZAYA_INLINE Vector larger_of(Vector a, Vector b) {
  return b > a ? b : a;
}
ZAYA_INLINE float sum_lanes(f32x16 x) { ZAYA_FOLD(add_of, add_of); }
ZAYA_INLINE float max_lanes(f32x16 x) { ZAYA_FOLD(larger_of, larger_of); }
#undef ZAYA_FOLD

}  // namespace zaya::ZAYA_SIMD_NAMESPACE
