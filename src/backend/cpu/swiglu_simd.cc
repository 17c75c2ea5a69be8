// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/swiglu_simd.h"

#include "backend/cpu/simd.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

extern const SwigluSimd kSwigluSimd;

namespace {

ZAYA_INLINE f32x16 sigmoid(f32x16 x) { return 1.0f / (1.0f + exp(-x)); }

template <class Element>
ZAYA_INLINE void forward_row(const Element* gu, Index width, Element* a) {
  for (Index c = 0; c < width; c += kLanes) {
    const f32x16 gate = load_part(gu, c, width), up = load_part(gu + width, c, width);
    store_part(a, c, width, gate * sigmoid(gate) * up);
  }
}

template <class Element>
ZAYA_INLINE float backward_row(const Element* gu, const Element* da, float weight, Index width,
                               Element* dgu, Element* wa) {
  f32x16 sum = zeros();
  for (Index c = 0; c < width; c += kLanes) {
    const f32x16 gate = load_part(gu, c, width), up = load_part(gu + width, c, width);
    const f32x16 d = load_part(da, c, width);
    const f32x16 s = sigmoid(gate);
    const f32x16 silu = gate * s, a = silu * up;
    const f32x16 slope = s * (1.0f + gate * (1.0f - s));
    sum += a * d;
    const f32x16 weighted = d * weight;
    store_part(wa, c, width, a * weight);
    store_part(dgu, c, width, weighted * up * slope);
    store_part(dgu + width, c, width, weighted * silu);
  }
  return sum_lanes(sum);
}

void forward(const void* gu, Index width, bool is_bf16, void* a) {
  if (is_bf16) {
    forward_row(static_cast<const std::uint16_t*>(gu), width, static_cast<std::uint16_t*>(a));
  } else {
    forward_row(static_cast<const float*>(gu), width, static_cast<float*>(a));
  }
}

float backward(const void* gu, const void* da, float weight, Index width, bool is_bf16, void* dgu,
               void* wa) {
  if (is_bf16) {
    return backward_row(static_cast<const std::uint16_t*>(gu),
                        static_cast<const std::uint16_t*>(da), weight, width,
                        static_cast<std::uint16_t*>(dgu), static_cast<std::uint16_t*>(wa));
  }
  return backward_row(static_cast<const float*>(gu), static_cast<const float*>(da), weight, width,
                      static_cast<float*>(dgu), static_cast<float*>(wa));
}

}  // namespace

const SwigluSimd kSwigluSimd = {.forward = forward, .backward = backward};

}  // namespace zaya::ZAYA_SIMD_NAMESPACE
