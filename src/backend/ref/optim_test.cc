// SPDX-License-Identifier: Apache-2.0
#include "backend/optim.h"

#include <doctest/doctest.h>

#include <limits>

#include "backend/backend.h"
#include "backend/testing.h"

namespace zaya::ref {

TEST_CASE("adamw follows its formula and writes the rounded copy") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::bf16);
  AdamWArgs args;
  args.value = list_tensor(arena, DType::f32, {2});
  args.first_moment = list_tensor(arena, DType::f32, {0.5});
  args.second_moment = list_tensor(arena, DType::f32, {0.25});
  args.copy = arena.take(DType::bf16, {1});
  args.grad = list_tensor(arena, DType::f32, {8});
  args.grad_scale = 0.25;
  args.learning_rate = 0.1;
  args.beta1 = 0.75;
  args.beta2 = 0.5;
  args.eps = 0.125;
  args.weight_decay = 0.5;
  args.correction1 = 0.5;
  args.correction2 = 0.75;
  backend.optim->adamw(args);
  // g = 2, m = 0.875, v = 2.125.
  const double wanted = 2 * 0.95 - 0.1 * 1.75 / (std::sqrt(2.125 / 0.75) + 0.125);
  CHECK(element(args.first_moment, 0).real() == 0.875);
  CHECK(element(args.second_moment, 0).real() == 2.125);
  CHECK(element(args.value, 0).real() == doctest::Approx(wanted).epsilon(1e-7));
  const auto rounded = bf16(static_cast<float>(element(args.value, 0).real()));
  CHECK(element(args.copy, 0).real() == static_cast<float>(rounded));
}

TEST_CASE("momentum gives the buffer, or one step ahead of it with Nesterov") {
  for (const bool nesterov : {false, true}) {
    TestArena arena;
    const Backend backend = make_ref_backend(Numerics::f32);
    const Tensor grad = list_tensor(arena, DType::f32, {4, -2});
    const Tensor buffer = list_tensor(arena, DType::f32, {1, 3}), out = arena.take(DType::f32, {2});
    backend.optim->momentum(grad, 0.5, 0.25, nesterov, buffer, out);
    CHECK(values(buffer) == std::vector<double>{2.25, -0.25});
    const std::vector<double> ahead = {2.5625, -1.0625};
    CHECK(values(out) == (nesterov ? ahead : values(buffer)));
  }
}

TEST_CASE("decayed_add takes updates of either type") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::bf16);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor value = list_tensor(arena, DType::f32, {2, -4});
    const Tensor copy = arena.take(DType::bf16, {2});
    backend.optim->decayed_add(value, list_tensor(arena, dtype, {1, 3}), 0.25, 0.5, copy);
    CHECK(values(value) == std::vector<double>{1, -4.5});
    CHECK(values(copy) == values(value));
  }
}

TEST_CASE("sums of squares let NaN through") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f32);
  const Tensor x = list_tensor(arena, DType::f32, {3, -4});
  CHECK(backend.optim->sum_squares(x) == 25);
  set_element(x, 1, std::numeric_limits<double>::quiet_NaN());
  CHECK(std::isnan(backend.optim->sum_squares(x)));
}

}  // namespace zaya::ref
