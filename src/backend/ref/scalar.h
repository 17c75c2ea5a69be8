// SPDX-License-Identifier: Apache-2.0
//
// Element types of the reference kernels. S is the stream type, T the compute type of a backend;
// both are read as Wide<S>, all arithmetic happens there, and results are rounded once on store.
#pragma once

#include <complex>
#include <vector>

#include "base/analytic.h"
#include "tensor/tensor.h"

namespace zaya::ref {

template <class S>
struct WideOf {
  using type = S;
};
template <>
struct WideOf<float> {
  using type = double;
};
template <>
struct WideOf<bf16> {
  using type = double;
};
template <class S>
using Wide = typename WideOf<S>::type;

inline double wide(float x) { return x; }
inline double wide(bf16 x) { return static_cast<float>(x); }
inline double wide(double x) { return x; }
inline std::complex<double> wide(std::complex<double> x) { return x; }

// The element of dtype T nearest to x.
template <class T, class A>
T narrow(A x) {
  if constexpr (std::is_same_v<T, bf16>) {
    return bf16(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

// to = rounded x; to += x with one rounding.
template <class T, class A>
void put(T& to, A x) {
  to = narrow<T>(x);
}
template <class T, class A>
void add(T& to, A x) {
  to = narrow<T>(wide(to) + x);
}

// Calls body(T{}) or body(S{}) for a tensor whose dtype may be the compute or the stream type.
template <class S, class T, class Body>
void with_dtype(DType dtype, Body&& body) {
  if (dtype == dtype_of<T>) {
    body(T{});
  } else {
    ZAYA_CHECK(dtype == dtype_of<S>);
    body(S{});
  }
}

// Any tensor as [rows, last].
template <class Byte>
BasicTensor<Byte> as_matrix(const BasicTensor<Byte>& x) {
  return x.shape().rank() == 2 ? x : x.reshaped({x.rows(), x.columns()});
}

// Sums in the wide type, to be added to a tensor of parameter gradients in the end.
template <class S>
class Sums {
 public:
  explicit Sums(Index count) : sums_(count) {}

  Wide<S>& operator[](Index i) { return sums_[i]; }
  const Wide<S>& operator[](Index i) const { return sums_[i]; }

  void add_to(const Tensor& x) const {
    const auto elements = x.as<S, 1>();
    for (Index i = 0; i < elements.dim(0); ++i) add(elements[i], sums_[i]);
  }

 private:
  std::vector<Wide<S>> sums_;
};

}  // namespace zaya::ref
