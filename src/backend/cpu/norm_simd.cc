// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/norm_simd.h"

#include "backend/cpu/simd_loops.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

extern const NormSimd kNormSimd;

namespace {

template <class Element>
ZAYA_INLINE float forward_row(const float* x, const float* w, double eps, Index width, Element* y) {
  const float squares = sum_over(width, [&](Index c, auto lanes) {
    const f32x16 value = load(x + c, lanes);
    return value * value;
  });
  const double mean = static_cast<double>(squares) / static_cast<double>(width);
  const float inverse = static_cast<float>(1 / __builtin_sqrt(mean + eps));
  for_lanes(0, width, [&](Index c, auto lanes) {
    store(y + c, load(w + c, lanes) * (load(x + c, lanes) * inverse), lanes);
  });
  return inverse;
}

void forward(const NormForward& a, Index begin, Index end) {
  with_element(a.y.is_bf16, [&]<class Element>(Element*) {
    for (Index t = begin; t < end; ++t) {
      a.inv_rms[t] = forward_row(static_cast<const float*>(a.x.data) + t * a.x.stride, a.w, a.eps,
                                 a.width, static_cast<Element*>(a.y.data) + t * a.y.stride);
    }
  });
}

template <class Element>
ZAYA_INLINE void backward_row(const float* x, const float* w, float inverse, const Element* dy,
                              Index width, float* dx, float* dw) {
  const float sum = sum_over(width, [&](Index c, auto lanes) {
    return load(w + c, lanes) * load(dy + c, lanes) * (load(x + c, lanes) * inverse);
  });
  const float mean = sum / static_cast<float>(width);
  for_lanes(0, width, [&](Index c, auto lanes) {
    const f32x16 g = load(dy + c, lanes), n = load(x + c, lanes) * inverse;
    store(dx + c, (load(w + c, lanes) * g - n * mean) * inverse, lanes);
    store(dw + c, load(dw + c, lanes) + g * n, lanes);
  });
}

void backward(const NormBackward& a, Index begin, Index end, float* dw) {
  for_lanes(0, a.width, [&](Index c, auto lanes) { store(dw + c, zeros(), lanes); });
  with_element(a.dy.is_bf16, [&]<class Element>(Element*) {
    for (Index t = begin; t < end; ++t) {
      backward_row(static_cast<const float*>(a.x.data) + t * a.x.stride, a.w, a.inv_rms[t],
                   static_cast<const Element*>(a.dy.data) + t * a.dy.stride, a.width,
                   static_cast<float*>(a.dx.data) + t * a.dx.stride, dw);
    }
  });
}

}  // namespace

const NormSimd kNormSimd = {.forward = forward, .backward = backward};

}  // namespace zaya::ZAYA_SIMD_NAMESPACE
