// SPDX-License-Identifier: Apache-2.0
#include "base/analytic.h"

#include <doctest/doctest.h>

namespace zaya {

using Complex = std::complex<double>;

TEST_CASE("analytic functions carry the derivative in the imaginary part") {
  const double h = 1e-30;
  for (const double x : {0.01, 0.7, 3.0}) {
    const Complex z(x, h);
    CHECK(analytic::exp(z).real() == std::exp(x));
    CHECK(analytic::exp(z).imag() / h == doctest::Approx(std::exp(x)).epsilon(1e-14));
    CHECK(analytic::log(z).imag() / h == doctest::Approx(1 / x).epsilon(1e-14));
    CHECK(analytic::sqrt(z).imag() / h == doctest::Approx(0.5 / std::sqrt(x)).epsilon(1e-14));
    const double step = 1e-5;
    const double difference = (std::erf(x + step) - std::erf(x - step)) / (2 * step);
    CHECK(analytic::erf(z).real() == std::erf(x));
    CHECK(analytic::erf(z).imag() / h == doctest::Approx(difference).epsilon(1e-8));
  }
}

TEST_CASE("analytic extrema and the absolute value follow the real part") {
  const Complex small(-2, 5), large(1, -7);
  CHECK(analytic::less(small, large));
  CHECK(analytic::max(small, large) == large);
  CHECK(analytic::max(Complex(1, 1), Complex(1, 2)) == Complex(1, 1));
  CHECK(analytic::abs(small) == Complex(2, -5));
  CHECK(analytic::abs(large) == large);
  CHECK(analytic::abs(-3.0) == 3.0);
}

TEST_CASE("analytic functions of real numbers at the border stay free of NaN") {
  CHECK(analytic::sqrt(Complex(0, 0)) == Complex(0, 0));
  CHECK(analytic::exp(Complex(-1e9, 0)) == Complex(0, 0));
}

}  // namespace zaya
