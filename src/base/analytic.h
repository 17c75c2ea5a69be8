// SPDX-License-Identifier: Apache-2.0
//
// Functions for code that runs on real and on complex numbers alike, continued analytically: a real
// function f of x + ih gives f(x) + ih f'(x) up to h^2. With h = 1e-30 the imaginary part is the
// derivative to full precision (complex-step differentiation; Squire and Trapp 1998). Comparisons
// and extrema go by the real part.
#pragma once

#include <cmath>
#include <complex>

namespace zaya::analytic {

inline double real(double x) { return x; }
inline double real(std::complex<double> x) { return x.real(); }

template <class A>
bool less(A a, A b) {
  return real(a) < real(b);
}

// The first argument on equality, also when either is NaN.
template <class A>
A max(A a, A b) {
  return less(a, b) ? b : a;
}

// |x|, not the modulus: -x where the real part is negative.
template <class A>
A abs(A x) {
  return real(x) < 0 ? -x : x;
}

inline double exp(double x) { return std::exp(x); }
inline double log(double x) { return std::log(x); }
inline double sqrt(double x) { return std::sqrt(x); }
inline double erf(double x) { return std::erf(x); }

namespace internal {

// value + i derivative h, with h the imaginary part of x.
inline std::complex<double> continued(std::complex<double> x, double value, double derivative) {
  return {value, x.imag() == 0 ? 0 : derivative * x.imag()};
}

}  // namespace internal

inline std::complex<double> exp(std::complex<double> x) {
  const double value = std::exp(x.real());
  return internal::continued(x, value, value);
}

inline std::complex<double> log(std::complex<double> x) {
  return internal::continued(x, std::log(x.real()), 1 / x.real());
}

inline std::complex<double> sqrt(std::complex<double> x) {
  const double value = std::sqrt(x.real());
  return internal::continued(x, value, 0.5 / value);
}

inline std::complex<double> erf(std::complex<double> x) {
  constexpr double kTwoOverRootPi = 1.1283791670955125739;
  const double a = x.real();
  return internal::continued(x, std::erf(a), kTwoOverRootPi * std::exp(-a * a));
}

}  // namespace zaya::analytic
