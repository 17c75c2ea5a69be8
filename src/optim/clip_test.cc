// SPDX-License-Identifier: Apache-2.0
#include "optim/clip.h"

#include <doctest/doctest.h>

#include <limits>

#include "backend/testing.h"

namespace zaya {

TEST_CASE("the norm is that of all parameters together, times the factor") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f32);
  const Tensor flat = list_tensor(arena, DType::f32, {3, 0, -4, 12, 0, 0});
  CHECK(gradient_norm(backend, flat).value() == 13);
  CHECK(gradient_norm(backend, flat, 0.5).value() == 6.5);
}

TEST_CASE("gradients whose squares overflow f32 still have a norm") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f32);
  const Tensor flat = list_tensor(arena, DType::f32, {3e30, 4e30});
  CHECK(gradient_norm(backend, flat).value() == doctest::Approx(5e30));
}

TEST_CASE("one element that is not finite means there is no norm") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f32);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()}) {
    const Tensor flat = filled_tensor(arena, DType::f32, {1000}, 1e-3);
    set_element(flat, 777, bad);
    CHECK_FALSE(gradient_norm(backend, flat).has_value());
  }
}

TEST_CASE("clipping scales long gradients to the limit and leaves short ones alone") {
  CHECK(clip_factor(4, 1) == 0.25);
  CHECK(clip_factor(1, 1) == 1);
  CHECK(clip_factor(0.5, 1) == 1);
  CHECK(clip_factor(0, 1) == 1);
  CHECK(clip_factor(4, 0) == 1);
}

}  // namespace zaya
