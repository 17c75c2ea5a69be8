// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/loss_simd.h"

#include "backend/cpu/simd.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

extern const LossSimd kLossSimd;

namespace {

// Terms summed in f32 before they join a double.
constexpr Index kTerms = 4096;

float maximum(const float* z, Index count) {
  f32x16 largest = broadcast(z[0]);
  Index c = 0;
  for (; c + kLanes <= count; c += kLanes) largest = max(largest, load(z + c));
  float result = max_lanes(largest);
  for (; c < count; ++c) result = z[c] > result ? z[c] : result;
  return result;
}

double sum_exp(float* z, Index count, float shift, bool stores) {
  double total = 0;
  for (Index begin = 0; begin < count; begin += kTerms) {
    const Index end = begin + kTerms < count ? begin + kTerms : count;
    f32x16 sum = zeros();
    Index c = begin;
    for (; c + kLanes <= end; c += kLanes) {
      const f32x16 e = exp(load(z + c) - shift);
      if (stores) store(z + c, e);
      sum += e;
    }
    if (c < end) {
      // Lanes behind the end hold the exponential of minus infinity.
      f32x16 x = load(z + c, end - c) - shift;
      x = select(lane_numbers() < broadcast_int(static_cast<std::int32_t>(end - c)), x,
                 broadcast(-1000.0f));
      const f32x16 e = exp(x);
      if (stores) store(z + c, e, end - c);
      sum += e;
    }
    total += static_cast<double>(sum_lanes(sum));
  }
  return total;
}

template <class Element>
ZAYA_INLINE void scale_to(const float* z, Index count, float factor, Element* to) {
  Index c = 0;
  for (; c + kLanes <= count; c += kLanes) store(to + c, load(z + c) * factor);
  if (c < count) store(to + c, load(z + c, count - c) * factor, count - c);
}

void scale(float* z, Index count, float factor, bool to_bf16) {
  if (to_bf16) {
    scale_to(z, count, factor, reinterpret_cast<std::uint16_t*>(z));
  } else {
    scale_to(z, count, factor, z);
  }
}

}  // namespace

const LossSimd kLossSimd = {.maximum = maximum, .sum_exp = sum_exp, .scale = scale};

}  // namespace zaya::ZAYA_SIMD_NAMESPACE
