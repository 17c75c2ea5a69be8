// SPDX-License-Identifier: Apache-2.0
#include "backend/norm.h"

#include "backend/ref/families.h"
#include "backend/ref/scalar.h"

namespace zaya::ref {

namespace {

template <class S, class T>
class RefNorm final : public NormKernels {
 public:
  void rms_forward(ConstTensor x, ConstTensor w, double eps, Tensor y,
                   Tensor inv_rms) noexcept override {
    with_dtype<S, T>(y.dtype(),
                     [&](auto out) { forward_of<decltype(out)>(x, w, eps, y, inv_rms); });
  }

  void rms_backward(ConstTensor x, ConstTensor w, ConstTensor inv_rms, ConstTensor dy, Tensor dx,
                    Tensor dw) noexcept override {
    with_dtype<S, T>(dy.dtype(),
                     [&](auto in) { backward_of<decltype(in)>(x, w, inv_rms, dy, dx, dw); });
  }

 private:
  using A = Wide<S>;

  template <class Y>
  static void forward_of(ConstTensor x, ConstTensor w, double eps, Tensor y, Tensor inv_rms) {
    const auto xs = x.as<S, 2>();
    const auto ws = w.as<S, 1>();
    const auto ys = y.as<Y, 2>();
    const auto inverses = inv_rms.as<S, 1>();
    const Index width = xs.dim(1);
    for (Index t = 0; t < xs.dim(0); ++t) {
      A sum = 0;
      for (Index i = 0; i < width; ++i) sum += wide(xs[t][i]) * wide(xs[t][i]);
      const A inverse = 1.0 / analytic::sqrt(sum / static_cast<double>(width) + eps);
      put(inverses[t], inverse);
      for (Index i = 0; i < width; ++i) put(ys[t][i], wide(ws[i]) * wide(xs[t][i]) * inverse);
    }
  }

  template <class Y>
  static void backward_of(ConstTensor x, ConstTensor w, ConstTensor inv_rms, ConstTensor dy,
                          Tensor dx, Tensor dw) {
    const auto xs = x.as<S, 2>();
    const auto ws = w.as<S, 1>();
    const auto dys = dy.as<Y, 2>();
    const auto dxs = dx.as<S, 2>();
    const Index width = xs.dim(1);
    Sums<S> dw_sums(width);
    for (Index t = 0; t < xs.dim(0); ++t) {
      const A inverse = wide(inv_rms.as<S, 1>()[t]);
      A mean = 0;
      for (Index i = 0; i < width; ++i) {
        const A n = wide(xs[t][i]) * inverse;
        mean += wide(ws[i]) * wide(dys[t][i]) * n;
        dw_sums[i] += wide(dys[t][i]) * n;
      }
      mean /= static_cast<double>(width);
      for (Index i = 0; i < width; ++i) {
        const A n = wide(xs[t][i]) * inverse;
        put(dxs[t][i], inverse * (wide(ws[i]) * wide(dys[t][i]) - n * mean));
      }
    }
    dw_sums.add_to(dw);
  }
};

}  // namespace

template <class S, class T>
std::unique_ptr<NormKernels> make_norm() {
  return std::make_unique<RefNorm<S, T>>();
}
ZAYA_REF_FAMILY(NormKernels, make_norm)

}  // namespace zaya::ref
