// SPDX-License-Identifier: Apache-2.0
#include "backend/router.h"

#include <cmath>
#include <numbers>

#include "backend/ref/families.h"
#include "backend/ref/scalar.h"

namespace zaya::ref {

namespace {

template <class S, class T>
class RefRouter final : public RouterKernels {
 public:
  void depth_forward(ConstTensor prev, ConstTensor scale, Tensor h) noexcept override {
    const auto prevs = prev.as<S, 2>();
    const auto scales = scale.as<S, 1>();
    const auto hs = h.as<S, 2>();
    for (Index t = 0; t < hs.dim(0); ++t) {
      for (Index i = 0; i < hs.dim(1); ++i) add(hs[t][i], wide(prevs[t][i]) * wide(scales[i]));
    }
  }

  void depth_backward(ConstTensor prev, ConstTensor scale, ConstTensor dh, Tensor dprev,
                      Tensor dscale) noexcept override {
    const auto prevs = prev.as<S, 2>(), dhs = dh.as<S, 2>();
    const auto scales = scale.as<S, 1>();
    const auto dprevs = dprev.as<S, 2>();
    Sums<S> sums(dhs.dim(1));
    for (Index t = 0; t < dhs.dim(0); ++t) {
      for (Index i = 0; i < dhs.dim(1); ++i) {
        sums[i] += wide(dhs[t][i]) * wide(prevs[t][i]);
        put(dprevs[t][i], wide(dhs[t][i]) * wide(scales[i]));
      }
    }
    sums.add_to(dscale);
  }

  void gelu_forward(ConstTensor x, Tensor y) noexcept override {
    const auto xs = as_matrix(x).template as<S, 2>();
    const auto ys = as_matrix(y).template as<S, 2>();
    for (Index t = 0; t < ys.dim(0); ++t) {
      for (Index i = 0; i < ys.dim(1); ++i) {
        const A v = wide(xs[t][i]);
        put(ys[t][i], v * normal_below(v));
      }
    }
  }

  void gelu_backward(ConstTensor x, ConstTensor dy, Tensor dx) noexcept override {
    const auto xs = as_matrix(x).template as<S, 2>();
    const auto dys = as_matrix(dy).template as<S, 2>();
    const auto dxs = as_matrix(dx).template as<S, 2>();
    for (Index t = 0; t < dxs.dim(0); ++t) {
      for (Index i = 0; i < dxs.dim(1); ++i) {
        const A v = wide(xs[t][i]);
        const A density =
            analytic::exp(-0.5 * v * v) * (0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
        put(dxs[t][i], wide(dys[t][i]) * (normal_below(v) + v * density));
      }
    }
  }

  void choose_forward(ConstTensor logits, ConstTensor bias, Tensor probs, Tensor choice,
                      Tensor weight) noexcept override {
    const auto ls = logits.as<S, 2>();
    const auto biases = bias.as<S, 1>();
    const auto ps = probs.as<S, 2>();
    const auto choices = choice.as<std::int32_t, 1>();
    const auto weights = weight.as<S, 1>();
    for (Index t = 0; t < ls.dim(0); ++t) {
      softmax(ls[t], ps[t]);
      // The stored probabilities decide, in the stream type, so that ties are the same everywhere.
      Index best = 0;
      for (Index c = 1; c < ls.dim(1); ++c) {
        if (analytic::real(S(ps[t][c] + biases[c])) >
            analytic::real(S(ps[t][best] + biases[best]))) {
          best = c;
        }
      }
      choices[t] = static_cast<std::int32_t>(best);
      weights[t] = ps[t][best];
    }
  }

  void choose_backward(ConstTensor probs, ConstTensor choice, ConstTensor dweight,
                       Tensor dlogits) noexcept override {
    const auto ps = probs.as<S, 2>();
    const auto choices = choice.as<std::int32_t, 1>();
    const auto dweights = dweight.as<S, 1>();
    const auto dls = dlogits.as<S, 2>();
    for (Index t = 0; t < ps.dim(0); ++t) {
      const A factor = wide(dweights[t]) * wide(ps[t][choices[t]]);
      for (Index c = 0; c < ps.dim(1); ++c) {
        const double one_hot = c == choices[t] ? 1 : 0;
        put(dls[t][c], factor * (one_hot - wide(ps[t][c])));
      }
    }
  }

 private:
  using A = Wide<S>;

  // Distribution function of the standard normal.
  static A normal_below(A x) {
    return 0.5 * (1.0 + analytic::erf(x * (0.5 * std::numbers::sqrt2)));
  }

  static void softmax(View<const S, 1> logits, View<S, 1> probs) {
    A most = wide(logits[0]);
    for (const S& l : logits) most = analytic::max(most, wide(l));
    A sum = 0;
    for (const S& l : logits) sum += analytic::exp(wide(l) - most);
    for (Index c = 0; c < logits.dim(0); ++c) {
      put(probs[c], analytic::exp(wide(logits[c]) - most) / sum);
    }
  }
};

}  // namespace

template <class S, class T>
std::unique_ptr<RouterKernels> make_router() {
  return std::make_unique<RefRouter<S, T>>();
}
ZAYA_REF_FAMILY(RouterKernels, make_router)

}  // namespace zaya::ref
