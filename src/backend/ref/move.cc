// SPDX-License-Identifier: Apache-2.0
#include "backend/move.h"

#include <cstring>

#include "backend/ref/families.h"
#include "backend/ref/scalar.h"

namespace zaya::ref {

namespace {

// The bytes of row i of [rows, last].
template <class Byte>
Byte* row(const BasicTensor<Byte>& x, Index i) {
  return x.data() + i * x.row_stride() * size_of(x.dtype());
}

std::size_t row_bytes(const ConstTensor& x) {
  return static_cast<std::size_t>(x.columns() * size_of(x.dtype()));
}

template <class S, class T>
class RefMove final : public MoveKernels {
 public:
  void zero(Tensor x) noexcept override {
    for (Index i = 0; i < x.rows(); ++i) std::memset(row(x, i), 0, row_bytes(x));
  }

  void copy(ConstTensor from, Tensor to) noexcept override {
    if (from.dtype() == to.dtype()) {
      for (Index i = 0; i < to.rows(); ++i) std::memcpy(row(to, i), row(from, i), row_bytes(to));
      return;
    }
    pairs(from, to, [](auto a, auto& b) { put(b, wide(a)); });
  }

  void add(ConstTensor from, double factor, Tensor to) noexcept override {
    pairs(from, to, [&](auto a, auto& b) { ref::add(b, factor * wide(a)); });
  }

  void scale(double factor, Tensor x) noexcept override {
    pairs(x, x, [&](auto a, auto& b) { put(b, factor * wide(a)); });
  }

  void zero_rows(ConstTensor mask, Tensor x) noexcept override {
    const auto masks = mask.as<std::uint8_t, 1>();
    for (Index t = 0; t < masks.dim(0); ++t) {
      if (masks[t] != 0) std::memset(row(x, t), 0, row_bytes(x));
    }
  }

  void gather_rows(ConstTensor x, ConstTensor rows, Tensor out) noexcept override {
    const auto row_of = rows.as<std::int32_t, 1>();
    for (Index i = 0; i < row_of.dim(0); ++i) {
      std::memcpy(row(out, i), row(x, row_of[i]), row_bytes(out));
    }
  }

  void transpose(ConstTensor x, Tensor y) noexcept override {
    with_dtype<S, T>(x.dtype(), [&](auto in) {
      with_dtype<S, T>(y.dtype(), [&](auto out) {
        const auto xs = x.as<decltype(in), 2>();
        const auto ys = y.as<decltype(out), 2>();
        for (Index i = 0; i < xs.dim(0); ++i) {
          for (Index j = 0; j < xs.dim(1); ++j) put(ys[j][i], wide(xs[i][j]));
        }
      });
    });
  }

 private:
  // body(element of from, element of to) for all elements.
  template <class Body>
  static void pairs(ConstTensor from, Tensor to, Body body) {
    with_dtype<S, T>(from.dtype(), [&](auto in) {
      with_dtype<S, T>(to.dtype(), [&](auto out) {
        const auto xs = as_matrix(from).template as<decltype(in), 2>();
        const auto ys = as_matrix(to).template as<decltype(out), 2>();
        for (Index i = 0; i < ys.dim(0); ++i) {
          for (Index j = 0; j < ys.dim(1); ++j) body(xs[i][j], ys[i][j]);
        }
      });
    });
  }
};

}  // namespace

template <class S, class T>
std::unique_ptr<MoveKernels> make_move() {
  return std::make_unique<RefMove<S, T>>();
}
ZAYA_REF_FAMILY(MoveKernels, make_move)

}  // namespace zaya::ref
