// SPDX-License-Identifier: Apache-2.0
//
// The functions of simd_math.h, compiled here for the program's own instruction set. Tests of the
// kernels show that all sets give the same bits.
#define ZAYA_SIMD_NAMESPACE simd_math_test
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "backend/cpu/simd.h"

namespace zaya::simd_math_test {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float exp_of(float x) {
  float lanes[kLanes];
  store(lanes, exp(broadcast(x)));
  return lanes[3];
}

float erf_of(float x) {
  float lanes[kLanes];
  store(lanes, erf(broadcast(x)));
  return lanes[11];
}

TEST_CASE("exp is within 2 units in the last place of the double function") {
  double worst = 0;
  for (double x = -103; x < 88.7; x += 0.0007) {
    const float rounded = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(rounded));
    // Below the smallest normal number a unit is 2^-149.
    const double unit = std::ldexp(1.0, std::max(std::ilogb(exact), -126) - 23);
    worst = std::max(worst, std::abs(static_cast<double>(exp_of(rounded)) - exact) / unit);
  }
  CAPTURE(worst);
  CHECK(worst <= 2);
}

TEST_CASE("exp has the limits of the exact function") {
  CHECK(exp_of(0) == 1);
  CHECK(exp_of(-kInfinity) == 0);
  CHECK(exp_of(-200) == 0);
  CHECK(exp_of(kInfinity) == kInfinity);
  CHECK(exp_of(88.73f) == kInfinity);
  CHECK(exp_of(88.7f) < kInfinity);
  CHECK(exp_of(-100) > 0);
  CHECK(std::isnan(exp_of(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("erf is within 1e-7 of the double function and odd") {
  double worst = 0;
  for (double x = -6; x < 6; x += 0.00003) {
    const float rounded = static_cast<float>(x);
    const double exact = std::erf(static_cast<double>(rounded));
    worst = std::max(worst, std::abs(static_cast<double>(erf_of(rounded)) - exact));
    if (erf_of(-rounded) != -erf_of(rounded)) worst = 1;
  }
  CAPTURE(worst);
  CHECK(worst <= 1e-7);
}

TEST_CASE("erf has the limits of the exact function") {
  CHECK(erf_of(0) == 0);
  CHECK(erf_of(kInfinity) == 1);
  CHECK(erf_of(-kInfinity) == -1);
  CHECK(erf_of(1e-30f) == doctest::Approx(1.1283792e-30).epsilon(1e-6));
  CHECK(std::isnan(erf_of(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("partial loads and stores touch their elements only") {
  for (Index count = 0; count < kLanes; ++count) {
    CAPTURE(count);
    float source[kLanes], target[kLanes];
    std::uint16_t halves[kLanes];
    for (Index i = 0; i < kLanes; ++i) {
      source[i] = static_cast<float>(i + 1);
      target[i] = -1;
      halves[i] = 7;
    }
    const f32x16 x = load(source, count);
    CHECK(sum_lanes(x) == static_cast<float>(count * (count + 1) / 2));
    store(target, x + 1.0f, count);
    store(halves, x, count);
    for (Index i = 0; i < kLanes; ++i) {
      CHECK(target[i] == (i < count ? source[i] + 1 : -1));
      const auto rounded = std::bit_cast<std::uint32_t>(source[i]) >> 16;
      CHECK(halves[i] == (i < count ? rounded : 7u));
    }
  }
}

}  // namespace

}  // namespace zaya::simd_math_test
