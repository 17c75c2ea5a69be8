// SPDX-License-Identifier: Apache-2.0
#include "backend/gemm.h"

#include "backend/ref/families.h"
#include "backend/ref/scalar.h"

namespace zaya::ref {

namespace {

template <class S, class T>
class RefGemm final : public GemmKernels {
 public:
  void forward(ConstTensor x, ConstTensor w, ConstTensor bias, Tensor y) noexcept override {
    with_dtype<S, T>(x.dtype(), [&](auto in) {
      with_dtype<S, T>(y.dtype(),
                       [&](auto out) { forward_of<decltype(in), decltype(out)>(x, w, bias, y); });
    });
  }

  void backward_input(ConstTensor dy, ConstTensor w, Tensor dx, bool adds) noexcept override {
    with_dtype<S, T>(dy.dtype(), [&](auto in) {
      with_dtype<S, T>(dx.dtype(), [&](auto out) {
        backward_input_of<decltype(in), decltype(out)>(dy, w, dx, adds);
      });
    });
  }

  void backward_weight(ConstTensor dy, ConstTensor x, Tensor dw, Tensor dbias) noexcept override {
    with_dtype<S, T>(dy.dtype(),
                     [&](auto in) { backward_weight_of<decltype(in)>(dy, x, dw, dbias); });
  }

  void symmetric(ConstTensor x, double alpha, ConstTensor c, double beta,
                 Tensor y) noexcept override {
    with_dtype<S, T>(x.dtype(), [&](auto in) { symmetric_of<decltype(in)>(x, alpha, c, beta, y); });
  }

  void multiply_add(ConstTensor p, ConstTensor x, double alpha, Tensor y) noexcept override {
    with_dtype<S, T>(x.dtype(), [&](auto in) { multiply_add_of<decltype(in)>(p, x, alpha, y); });
  }

 private:
  using A = Wide<S>;

  template <class X>
  static A dot(View<const X, 1> a, View<const X, 1> b) {
    const X *pa = a.data(), *pb = b.data();
    A sum = 0;
    for (Index i = 0; i < a.dim(0); ++i) sum += wide(pa[i]) * wide(pb[i]);
    return sum;
  }

  template <class X, class Y>
  static void forward_of(ConstTensor x, ConstTensor w, ConstTensor bias, Tensor y) {
    const auto xs = x.as<X, 2>();
    const auto ws = w.as<X, 2>();
    const auto ys = y.as<Y, 2>();
    for (Index r = 0; r < xs.dim(0); ++r) {
      for (Index o = 0; o < ws.dim(0); ++o) {
        A sum = dot<X>(xs[r], ws[o]);
        if (!bias.is_none()) sum += wide(bias.as<S, 1>()[o]);
        put(ys[r][o], sum);
      }
    }
  }

  template <class X, class Y>
  static void backward_input_of(ConstTensor dy, ConstTensor w, Tensor dx, bool adds) {
    const auto dys = dy.as<X, 2>();
    const auto ws = w.as<X, 2>();
    const auto dxs = dx.as<Y, 2>();
    std::vector<A> row(ws.dim(1));
    for (Index r = 0; r < dys.dim(0); ++r) {
      row.assign(row.size(), A(0));
      for (Index o = 0; o < ws.dim(0); ++o) {
        const A factor = wide(dys[r][o]);
        const X* from = ws[o].data();
        for (Index i = 0; i < ws.dim(1); ++i) row[i] += factor * wide(from[i]);
      }
      for (Index i = 0; i < ws.dim(1); ++i) {
        put(dxs[r][i], adds ? wide(dxs[r][i]) + row[i] : row[i]);
      }
    }
  }

  template <class X>
  static void backward_weight_of(ConstTensor dy, ConstTensor x, Tensor dw, Tensor dbias) {
    const auto dys = dy.as<X, 2>();
    const auto xs = x.as<X, 2>();
    const auto dws = dw.as<S, 2>();
    std::vector<A> row(xs.dim(1));
    for (Index o = 0; o < dys.dim(1); ++o) {
      row.assign(row.size(), A(0));
      A bias_sum = 0;
      for (Index r = 0; r < dys.dim(0); ++r) {
        const A factor = wide(dys[r][o]);
        const X* from = xs[r].data();
        bias_sum += factor;
        for (Index i = 0; i < xs.dim(1); ++i) row[i] += factor * wide(from[i]);
      }
      for (Index i = 0; i < xs.dim(1); ++i) add(dws[o][i], row[i]);
      if (!dbias.is_none()) add(dbias.as<S, 1>()[o], bias_sum);
    }
  }

  template <class X>
  static void symmetric_of(ConstTensor x, double alpha, ConstTensor c, double beta, Tensor y) {
    const auto xs = x.as<X, 2>();
    const auto ys = y.as<X, 2>();
    for (Index i = 0; i < xs.dim(0); ++i) {
      for (Index j = i; j < xs.dim(0); ++j) {
        A sum = alpha * dot<X>(xs[i], xs[j]);
        if (!c.is_none()) sum += beta * wide(c.as<X, 2>()[i][j]);
        put(ys[i][j], sum);
        ys[j][i] = ys[i][j];
      }
    }
  }

  template <class X>
  static void multiply_add_of(ConstTensor p, ConstTensor x, double alpha, Tensor y) {
    const auto ps = p.as<X, 2>();
    const auto xs = x.as<X, 2>();
    const auto ys = y.as<X, 2>();
    std::vector<A> row(xs.dim(1));
    for (Index i = 0; i < xs.dim(0); ++i) {
      for (Index c = 0; c < xs.dim(1); ++c) row[c] = alpha * wide(xs[i][c]);
      for (Index k = 0; k < xs.dim(0); ++k) {
        const A factor = wide(ps[i][k]);
        const X* from = xs[k].data();
        for (Index c = 0; c < xs.dim(1); ++c) row[c] += factor * wide(from[c]);
      }
      for (Index c = 0; c < xs.dim(1); ++c) put(ys[i][c], row[c]);
    }
  }
};

}  // namespace

template <class S, class T>
std::unique_ptr<GemmKernels> make_gemm() {
  return std::make_unique<RefGemm<S, T>>();
}
ZAYA_REF_FAMILY(GemmKernels, make_gemm)

}  // namespace zaya::ref
