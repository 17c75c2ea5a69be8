// SPDX-License-Identifier: Apache-2.0
#include "backend/norm.h"

#include <doctest/doctest.h>

#include "backend/ref/gradient_check.h"

namespace zaya::ref {

using Type = GradientCheck::Type;

TEST_CASE("the gradients of the norm agree with complex steps") {
  for (const Type type : {Type::stream, Type::compute}) {
    GradientCheck check;
    const int x = check.input("x", Type::stream, {4, 9}, 2, 0.5);
    const int w = check.parameter("w", Type::stream, {9});
    const int y = check.output("y", type, {4, 9});
    check.run(
        [&](GradientRun& r) {
          r.saved = {r.take_stream({4})};
          r.backend.norm->rms_forward(r.in[x], r.in[w], 1e-2, r.out[y], r.saved[0]);
        },
        [&](GradientRun& r) {
          r.backend.norm->rms_backward(r.in[x], r.in[w], r.saved[0], r.dout[y], r.din[x], r.din[w]);
        });
  }
}

TEST_CASE("the norm divides by the root of the mean square plus eps") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f64);
  const Tensor x = list_tensor(arena, DType::f64, {3, 4, 0, 0}).reshaped({2, 2});
  const Tensor w = list_tensor(arena, DType::f64, {2, -1});
  const Tensor y = arena.take(DType::f64, {2, 2}), inverse = arena.take(DType::f64, {2});
  backend.norm->rms_forward(x, w, 0.25, y, inverse);
  CHECK(element(inverse, 0).real() == doctest::Approx(1 / std::sqrt(12.75)));
  CHECK(element(inverse, 1).real() == doctest::Approx(2));
  CHECK(element(y, 0).real() == doctest::Approx(6 / std::sqrt(12.75)));
  CHECK(element(y, 1).real() == doctest::Approx(-4 / std::sqrt(12.75)));
  CHECK(element(y, 2).real() == 0);
}

}  // namespace zaya::ref
