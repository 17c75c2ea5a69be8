// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/optim_simd.h"

#include "backend/cpu/simd_loops.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

extern const OptimSimd kOptimSimd;

namespace {

// Calls body(copy) with the typed address of the copy, or with a null f32 address.
template <class Body>
ZAYA_INLINE void with_copy(void* copy, bool is_bf16, Body body) {
  if (is_bf16) {
    body(static_cast<std::uint16_t*>(copy));
  } else {
    body(static_cast<float*>(copy));
  }
}

void adamw(const AdamWFactors& f, const AdamWPart& p, Index count) {
  with_copy(p.copy, p.copy_is_bf16, [&](auto* copy) {
    for_lanes(0, count, [&](Index c, auto lanes) {
      const f32x16 g = load(p.grad + c, lanes) * f.grad_scale;
      const f32x16 m = load(p.first + c, lanes) * f.beta1 + g * f.new1;
      const f32x16 v = load(p.second + c, lanes) * f.beta2 + g * g * f.new2;
      const f32x16 root = sqrt(v) * f.root_scale + f.eps;
      // Not value * (1 - decay): that factor would lose most digits of a small decay.
      const f32x16 old = load(p.value + c, lanes);
      const f32x16 value = old - (old * f.decay + m * f.step / root);
      store(p.first + c, m, lanes);
      store(p.second + c, v, lanes);
      store(p.value + c, value, lanes);
      if (copy != nullptr) store(copy + c, value, lanes);
    });
  });
}

void momentum(const MomentumFactors& f, const float* grad, Index count, float* buffer, void* out,
              bool out_is_bf16) {
  with_copy(out, out_is_bf16, [&](auto* to) {
    for_lanes(0, count, [&](Index c, auto lanes) {
      const f32x16 g = load(grad + c, lanes) * f.scale;
      const f32x16 b = load(buffer + c, lanes) * f.mu + g;
      store(buffer + c, b, lanes);
      store(to + c, f.nesterov ? g + b * f.mu : b, lanes);
    });
  });
}

void decayed_add(float decay, float step, ConstRows update, Index count, float* value, Rows copy) {
  with_element(update.is_bf16, [&]<class Element>(Element*) {
    const Element* from = static_cast<const Element*>(update.data);
    with_copy(copy.data, copy.is_bf16, [&](auto* to) {
      for_lanes(0, count, [&](Index c, auto lanes) {
        const f32x16 old = load(value + c, lanes);
        const f32x16 x = old - (old * decay + load(from + c, lanes) * step);
        store(value + c, x, lanes);
        if (to != nullptr) store(to + c, x, lanes);
      });
    });
  });
}

// Sixteen running sums, folded in the order of the lanes.
template <class T>
double sum_squares_of(const T* x, Index count) {
  double sums[kLanes] = {};
  Index c = 0;
  for (; c + kLanes <= count; c += kLanes) {
    for (Index i = 0; i < kLanes; ++i) {
      const double value = static_cast<double>(static_cast<float>(x[c + i]));
      sums[i] += value * value;
    }
  }
  for (Index i = 0; c + i < count; ++i) {
    const double value = static_cast<double>(static_cast<float>(x[c + i]));
    sums[i] += value * value;
  }
  double total = 0;
  for (Index i = 0; i < kLanes; ++i) total += sums[i];
  return total;
}

double sum_squares(const ConstRows& x, Index count) {
  return x.is_bf16 ? sum_squares_of(static_cast<const bf16*>(x.data), count)
                   : sum_squares_of(static_cast<const float*>(x.data), count);
}

}  // namespace

const OptimSimd kOptimSimd = {
    .adamw = adamw,
    .momentum = momentum,
    .decayed_add = decayed_add,
    .sum_squares = sum_squares,
};

}  // namespace zaya::ZAYA_SIMD_NAMESPACE
