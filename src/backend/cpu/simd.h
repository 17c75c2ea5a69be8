// SPDX-License-Identifier: Apache-2.0
//
// Vectors of 16 floats for the bodies of SIMD kernels. The width is the same on every instruction
// set (1, 2 or 4 registers), so lanes, order of sums and hence bits are too. Nothing here fuses a
// multiplication with an addition. For *_simd.cc files only: every function is inlined into its
// caller, so that no copy of one instruction set serves another.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "base/types.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

#define ZAYA_INLINE [[gnu::always_inline]] static inline

inline constexpr int kLanes = 16;

#if defined(__AVX512F__)
inline constexpr int kRegisterLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kRegisterLanes = 8;
#else
inline constexpr int kRegisterLanes = 4;
#endif
inline constexpr int kParts = kLanes / kRegisterLanes;

// One register.
using FloatPart = float __attribute__((vector_size(4 * kRegisterLanes)));
using IntPart = std::int32_t __attribute__((vector_size(4 * kRegisterLanes)));
using UnsignedPart = std::uint32_t __attribute__((vector_size(4 * kRegisterLanes)));

struct f32x16 {
  FloatPart part[kParts];
};
// Integers, or the result of a comparison: all bits of a lane set or none.
struct i32x16 {
  IntPart part[kParts];
};

// For each register i of the vector.
#define ZAYA_PARTS for (int i = 0; i < kParts; ++i)

ZAYA_INLINE f32x16 broadcast(float x) {
  f32x16 r;
  ZAYA_PARTS r.part[i] = x - FloatPart{};
  return r;
}
ZAYA_INLINE i32x16 broadcast_int(std::int32_t x) {
  i32x16 r;
  ZAYA_PARTS r.part[i] = x - IntPart{};
  return r;
}
ZAYA_INLINE f32x16 zeros() { return broadcast(0.0f); }

#define ZAYA_OPERATOR(op)                                                         \
  ZAYA_INLINE f32x16 operator op(f32x16 a, f32x16 b) {                            \
    ZAYA_PARTS a.part[i] = a.part[i] op b.part[i];                                \
    return a;                                                                     \
  }                                                                               \
  ZAYA_INLINE f32x16 operator op(f32x16 a, float b) { return a op broadcast(b); } \
  ZAYA_INLINE f32x16 operator op(float a, f32x16 b) { return broadcast(a) op b; }
ZAYA_OPERATOR(+)
ZAYA_OPERATOR(-)
ZAYA_OPERATOR(*)
ZAYA_OPERATOR(/)
#undef ZAYA_OPERATOR
ZAYA_INLINE f32x16 operator-(f32x16 a) {
  ZAYA_PARTS a.part[i] = -a.part[i];
  return a;
}
ZAYA_INLINE f32x16& operator+=(f32x16& a, f32x16 b) { return a = a + b; }

// Comparisons; false where a lane is NaN.
#define ZAYA_COMPARISON(op)                                                       \
  ZAYA_INLINE i32x16 operator op(f32x16 a, f32x16 b) {                            \
    i32x16 r;                                                                     \
    ZAYA_PARTS r.part[i] = a.part[i] op b.part[i];                                \
    return r;                                                                     \
  }                                                                               \
  ZAYA_INLINE i32x16 operator op(f32x16 a, float b) { return a op broadcast(b); } \
  ZAYA_INLINE i32x16 operator op(i32x16 a, i32x16 b) {                            \
    ZAYA_PARTS a.part[i] = a.part[i] op b.part[i];                                \
    return a;                                                                     \
  }
ZAYA_COMPARISON(<)
ZAYA_COMPARISON(>)
ZAYA_COMPARISON(<=)
ZAYA_COMPARISON(>=)
ZAYA_COMPARISON(==)
#undef ZAYA_COMPARISON

// Integer arithmetic wraps around.
#define ZAYA_INT_OPERATOR(op)                                                                    \
  ZAYA_INLINE i32x16 operator op(i32x16 a, i32x16 b) {                                           \
    ZAYA_PARTS a.part[i] = reinterpret_cast<IntPart>(                                            \
        reinterpret_cast<UnsignedPart>(a.part[i]) op reinterpret_cast<UnsignedPart>(b.part[i])); \
    return a;                                                                                    \
  }
ZAYA_INT_OPERATOR(+)
ZAYA_INT_OPERATOR(-)
ZAYA_INT_OPERATOR(&)
ZAYA_INT_OPERATOR(|)
#undef ZAYA_INT_OPERATOR
// Shifts of every lane; to the right with the sign.
ZAYA_INLINE i32x16 operator<<(i32x16 a, int bits) {
  ZAYA_PARTS a.part[i] =
      reinterpret_cast<IntPart>(reinterpret_cast<UnsignedPart>(a.part[i]) << bits);
  return a;
}
ZAYA_INLINE i32x16 operator>>(i32x16 a, int bits) {
  ZAYA_PARTS a.part[i] = a.part[i] >> bits;
  return a;
}

// mask ? a : b, lane by lane.
ZAYA_INLINE f32x16 select(i32x16 mask, f32x16 a, f32x16 b) {
  ZAYA_PARTS a.part[i] = mask.part[i] ? a.part[i] : b.part[i];
  return a;
}
ZAYA_INLINE i32x16 select(i32x16 mask, i32x16 a, i32x16 b) {
  ZAYA_PARTS a.part[i] = mask.part[i] ? a.part[i] : b.part[i];
  return a;
}
// The larger; a NaN in b is lost, one in a is kept.
ZAYA_INLINE f32x16 max(f32x16 a, f32x16 b) { return select(b > a, b, a); }

ZAYA_INLINE i32x16 bits_of(f32x16 x) {
  i32x16 r;
  ZAYA_PARTS r.part[i] = reinterpret_cast<IntPart>(x.part[i]);
  return r;
}
ZAYA_INLINE f32x16 float_of_bits(i32x16 x) {
  f32x16 r;
  ZAYA_PARTS r.part[i] = reinterpret_cast<FloatPart>(x.part[i]);
  return r;
}
ZAYA_INLINE f32x16 abs(f32x16 x) { return float_of_bits(bits_of(x) & broadcast_int(0x7fffffff)); }
ZAYA_INLINE f32x16 sqrt(f32x16 x) {
  ZAYA_PARTS {
#if defined(__AVX512F__)
    x.part[i] = _mm512_sqrt_ps(x.part[i]);
#elif defined(__AVX2__)
    x.part[i] = _mm256_sqrt_ps(x.part[i]);
#else
    x.part[i] = _mm_sqrt_ps(x.part[i]);
#endif
  }
  return x;
}
// 0, 1, ... 15.
ZAYA_INLINE i32x16 lane_numbers() {
  const std::int32_t numbers[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  i32x16 r;
  __builtin_memcpy(&r, numbers, sizeof r);
  return r;
}

}  // namespace zaya::ZAYA_SIMD_NAMESPACE

#include "backend/cpu/simd_math.h"
#include "backend/cpu/simd_memory.h"
