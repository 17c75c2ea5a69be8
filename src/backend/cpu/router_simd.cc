// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/router_simd.h"

#include "backend/cpu/simd_loops.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

extern const RouterSimd kRouterSimd;

namespace {

constexpr float kRootHalf = 0.70710678118654752f;
constexpr float kDensityAtZero = 0.39894228040143268f;  // 1 / sqrt(2 pi)

ZAYA_INLINE const float* row(ConstRows rows, Index t) {
  return static_cast<const float*>(rows.data) + t * rows.stride;
}
ZAYA_INLINE float* row(Rows rows, Index t) {
  return static_cast<float*>(rows.data) + t * rows.stride;
}

void depth_forward(const DepthRows& a, Index begin, Index end, Rows h) {
  for (Index t = begin; t < end; ++t) {
    const float* prev = a.prev + t * a.prev_stride;
    float* to = row(h, t);
    for_lanes(0, a.width, [&](Index c, auto lanes) {
      store(to + c, load(to + c, lanes) + load(prev + c, lanes) * load(a.scale + c, lanes), lanes);
    });
  }
}

void depth_backward(const DepthRows& a, Index begin, Index end, ConstRows dh, Rows dprev,
                    float* dscale) {
  for_lanes(0, a.width, [&](Index c, auto lanes) { store(dscale + c, zeros(), lanes); });
  for (Index t = begin; t < end; ++t) {
    const float* prev = a.prev + t * a.prev_stride;
    const float* from = row(dh, t);
    float* to = row(dprev, t);
    for_lanes(0, a.width, [&](Index c, auto lanes) {
      const f32x16 g = load(from + c, lanes);
      store(dscale + c, load(dscale + c, lanes) + g * load(prev + c, lanes), lanes);
      store(to + c, g * load(a.scale + c, lanes), lanes);
    });
  }
}

// Distribution function of the standard normal.
ZAYA_INLINE f32x16 normal_below(f32x16 x) { return (erf(x * kRootHalf) + 1.0f) * 0.5f; }

void gelu_forward(const float* x, Index count, float* y) {
  for_lanes(0, count, [&](Index c, auto lanes) {
    const f32x16 value = load(x + c, lanes);
    store(y + c, value * normal_below(value), lanes);
  });
}

void gelu_backward(const float* x, const float* dy, Index count, float* dx) {
  for_lanes(0, count, [&](Index c, auto lanes) {
    const f32x16 value = load(x + c, lanes);
    const f32x16 density = exp(value * value * -0.5f) * kDensityAtZero;
    store(dx + c, load(dy + c, lanes) * (normal_below(value) + value * density), lanes);
  });
}

// The lowest index of the largest p + bias.
ZAYA_INLINE Index best_class(const float* p, const float* bias, Index count) {
  Index best = 0;
  for (Index c = 1; c < count; ++c) {
    if (p[c] + bias[c] > p[best] + bias[best]) best = c;
  }
  return best;
}

ZAYA_INLINE void softmax(const float* logits, Index count, float* p) {
  float most = logits[0];
  for (Index c = 1; c < count; ++c) most = logits[c] > most ? logits[c] : most;
  f32x16 sums = zeros();
  for_lanes(0, count, [&](Index c, auto lanes) {
    const f32x16 e = exp(load(logits + c, lanes) - most);
    store(p + c, e, lanes);
    // Read back: lanes behind the end count as zero.
    sums += load(p + c, lanes);
  });
  const float sum = sum_lanes(sums);
  for_lanes(0, count, [&](Index c, auto lanes) { store(p + c, load(p + c, lanes) / sum, lanes); });
}

void choose_forward(const ChooseRows& a, Index begin, Index end) {
  for (Index t = begin; t < end; ++t) {
    float* p = row(a.probs, t);
    softmax(row(a.logits, t), a.num_classes, p);
    const Index best = best_class(p, a.bias, a.num_classes);
    a.choice[t] = static_cast<std::int32_t>(best);
    a.weight[t] = p[best];
  }
}

void choose_backward(const ChooseBackward& a, Index begin, Index end) {
  for (Index t = begin; t < end; ++t) {
    const float* p = row(a.probs, t);
    float* to = row(a.dlogits, t);
    const Index chosen = a.choice[t];
    const float factor = a.dweight[t] * p[chosen];
    const float at_chosen = factor * (1.0f - p[chosen]);
    for_lanes(0, a.num_classes,
              [&](Index c, auto lanes) { store(to + c, load(p + c, lanes) * -factor, lanes); });
    to[chosen] = at_chosen;
  }
}

}  // namespace

const RouterSimd kRouterSimd = {
    .depth_forward = depth_forward,
    .depth_backward = depth_backward,
    .gelu_forward = gelu_forward,
    .gelu_backward = gelu_backward,
    .choose_forward = choose_forward,
    .choose_backward = choose_backward,
};

}  // namespace zaya::ZAYA_SIMD_NAMESPACE
