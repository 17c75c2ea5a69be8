// SPDX-License-Identifier: Apache-2.0
#include "backend/router.h"

#include <doctest/doctest.h>

#include "backend/ref/gradient_check.h"

namespace zaya::ref {

using Type = GradientCheck::Type;

TEST_CASE("the gradients of depth averaging agree with complex steps") {
  GradientCheck check;
  const int h = check.input("h", Type::stream, {4, 3});
  const int prev = check.input("prev", Type::stream, {4, 3});
  const int scale = check.parameter("scale", Type::stream, {3});
  const int y = check.output("y", Type::stream, {4, 3});
  check.run(
      [&](GradientRun& r) {
        r.backend.move->copy(r.in[h], r.out[y]);
        r.backend.router->depth_forward(r.in[prev], r.in[scale], r.out[y]);
      },
      [&](GradientRun& r) {
        r.backend.move->copy(r.dout[y], r.din[h]);
        r.backend.router->depth_backward(r.in[prev], r.in[scale], r.din[h], r.din[prev],
                                         r.din[scale]);
      });
}

TEST_CASE("the gradient of gelu agrees with complex steps, also in place") {
  GradientCheck check;
  const int x = check.input("x", Type::stream, {3, 4}, 2);
  const int y = check.output("y", Type::stream, {3, 4});
  check.run([&](GradientRun& r) { r.backend.router->gelu_forward(r.in[x], r.out[y]); },
            [&](GradientRun& r) {
              r.backend.move->copy(r.dout[y], r.din[x]);
              r.backend.router->gelu_backward(r.in[x], r.din[x], r.din[x]);
            });
}

TEST_CASE("gelu has its known values") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f64);
  const Tensor x = list_tensor(arena, DType::f64, {-1e3, -1, 0, 1, 1e3});
  backend.router->gelu_forward(x, x);
  CHECK(element(x, 0).real() == 0);
  CHECK(element(x, 1).real() == doctest::Approx(-0.15865525393145707).epsilon(1e-14));
  CHECK(element(x, 2).real() == 0);
  CHECK(element(x, 3).real() == doctest::Approx(0.8413447460685429).epsilon(1e-14));
  CHECK(element(x, 4).real() == 1e3);
}

TEST_CASE("the gradient of the choice agrees with complex steps") {
  GradientCheck check;
  const int logits = check.input("logits", Type::stream, {6, 5}, 2);
  const int bias = check.constant("bias", Type::stream, {5}, 0.3);
  const int weight = check.output("weight", Type::stream, {6});
  check.run(
      [&](GradientRun& r) {
        r.saved = {r.take_stream({6, 5}), r.arena.take(DType::i32, {6})};
        r.backend.router->choose_forward(r.in[logits], r.in[bias], r.saved[0], r.saved[1],
                                         r.out[weight]);
      },
      [&](GradientRun& r) {
        r.backend.router->choose_backward(r.saved[0], r.saved[1], r.dout[weight], r.din[logits]);
      });
}

TEST_CASE("biases move the choice and not the weight, and the lowest index wins a tie") {
  for (const Numerics numerics : {Numerics::f32, Numerics::c128}) {
    TestArena arena;
    const Backend backend = make_ref_backend(numerics);
    const DType dtype = backend.stream();
    const double ln2 = std::log(2.0);
    const Tensor logits =
        list_tensor(arena, dtype, {0, ln2, 0, ln2, ln2, 0, 0, 0, 0}).reshaped({3, 3});
    const Tensor bias = list_tensor(arena, dtype, {0, 0, 0.5});
    const Tensor probs = arena.take(dtype, {3, 3}), weight = arena.take(dtype, {3});
    const Tensor choice = arena.take(DType::i32, {3});
    backend.router->choose_forward(logits, filled_tensor(arena, dtype, {3}, 0), probs, choice,
                                   weight);
    CHECK(values(choice) == std::vector<double>{1, 0, 0});
    CHECK(element(weight, 0).real() == doctest::Approx(0.5));
    CHECK(element(weight, 1).real() == doctest::Approx(0.4));
    backend.router->choose_forward(logits, bias, probs, choice, weight);
    CHECK(values(choice) == std::vector<double>{2, 2, 2});
    CHECK(element(weight, 0).real() == doctest::Approx(0.25));
    CHECK(element(weight, 1).real() == doctest::Approx(0.2));
  }
}

}  // namespace zaya::ref
