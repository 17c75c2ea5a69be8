// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>

#include "backend/cpu/elementwise_testing.h"

namespace zaya {

namespace {

// Lengths around the vector width, and one that needs several tasks.
std::vector<Index> counts() {
  std::vector<Index> all(kLengths.begin(), kLengths.end());
  all.push_back(70001);
  return all;
}

AdamWArgs adamw_args(const Backend& backend, TestArena& arena, Index count) {
  const DType stream = backend.stream();
  AdamWArgs args;
  args.value = random_tensor(arena, stream, {count}, "value");
  args.first_moment = random_tensor(arena, stream, {count}, "m", 0.1);
  args.second_moment = random_tensor(arena, stream, {count}, "v", 0.001, 0.01);
  args.grad = random_tensor(arena, stream, {count}, "grad");
  args.copy = arena.take(backend.compute(), {count});
  args.grad_scale = 0.7;
  args.learning_rate = 3e-3;
  args.weight_decay = 0.1;
  args.correction1 = 0.271;
  args.correction2 = 0.1426;
  return args;
}

std::vector<Tensor> run_adamw(const Backend& backend, const AdamWArgs& args) {
  backend.optim->adamw(args);
  if (args.copy.is_none()) return {args.value, args.first_moment, args.second_moment};
  return {args.value, args.first_moment, args.second_moment, args.copy};
}

TEST_CASE("AdamW agrees with its definition for every length") {
  for (const Numerics numerics : kRunNumerics) {
    for (const Index count : counts()) {
      CAPTURE(count);
      compare_elementwise(numerics, [&](const Backend& backend, TestArena& arena) {
        return run_adamw(backend, adamw_args(backend, arena, count));
      });
    }
    compare_elementwise(numerics, [&](const Backend& backend, TestArena& arena) {
      AdamWArgs args = adamw_args(backend, arena, 100);
      args.copy = {};
      args.value = args.value.slice(1, 98);
      args.first_moment = args.first_moment.slice(2, 99);
      args.second_moment = args.second_moment.slice(3, 100);
      args.grad = args.grad.slice(1, 98);
      return run_adamw(backend, args);
    });
  }
}

TEST_CASE("weight decay keeps its size at a tiny learning rate") {
  ThreadPool pool(1);
  const std::optional<InstructionSet> set = tested_instruction_set();
  if (!set) return;
  const Backend backend = make_cpu_backend(Numerics::f32, pool, *set);
  TestArena arena;
  // 1 - 1e-6 in f32 is 1 - 17 * 2^-24, 1.3 % more than asked for.
  constexpr Index kCount = 4096;
  const Tensor value = arena.take(DType::f32, {kCount});
  for (Index i = 0; i < kCount; ++i) set_element(value, i, 1 + static_cast<double>(i) / kCount);
  const Tensor update = filled_tensor(arena, DType::f32, {kCount}, 0);
  const Tensor before = converted(arena, value, DType::f32);
  backend.optim->decayed_add(value, update, 1e-6, 0, {});
  double lost = 0, total = 0;
  for (Index i = 0; i < kCount; ++i) {
    lost += element(before, i).real() - element(value, i).real();
    total += element(before, i).real();
  }
  CHECK(lost / total == doctest::Approx(1e-6).epsilon(0.005));
}

TEST_CASE("momentum and decayed addition agree with their definitions for every length") {
  for (const Numerics numerics : kRunNumerics) {
    for (const Index count : counts()) {
      CAPTURE(count);
      for (const bool nesterov : {false, true}) {
        compare_elementwise(numerics, [&](const Backend& backend, TestArena& arena) {
          const Tensor grad = random_tensor(arena, DType::f32, {count}, "grad");
          const Tensor buffer = random_tensor(arena, DType::f32, {count}, "buffer");
          const DType type = nesterov ? backend.compute() : DType::f32;
          const Tensor out = arena.take(type, {count}), copy = arena.take(type, {count});
          backend.optim->momentum(grad, 0.3, 0.95, nesterov, buffer, out);
          const Tensor value = random_tensor(arena, DType::f32, {count}, "value");
          backend.optim->decayed_add(value, out, 0.01, 0.02, nesterov ? copy : Tensor{});
          if (!nesterov) return std::vector{buffer, out, value};
          return std::vector{buffer, out, value, copy};
        });
      }
    }
  }
}

TEST_CASE("the sum of squares is exact to double rounding and the same on all sets") {
  for (const Index count : counts()) {
    CAPTURE(count);
    compare_elementwise(Numerics::f32, [&](const Backend& backend, TestArena& arena) {
      const Tensor x = random_tensor(arena, DType::f32, {count}, "x", 1e25);
      const double sum = backend.optim->sum_squares(x);
      double expected = 0;
      for (Index i = 0; i < count; ++i) expected += std::norm(element(x, i));
      CHECK(sum == doctest::Approx(expected).epsilon(1e-13));
      return std::vector{list_tensor(arena, DType::f64, {sum})};
    });
  }
}

TEST_CASE("NaN and infinity pass through the optimizers") {
  compare_nans(Numerics::f32, [](const Backend& backend, TestArena& arena) {
    const AdamWArgs args = adamw_args(backend, arena, 20);
    const Tensor grad = random_tensor(arena, DType::f32, {20}, "other");
    set_element(grad, 3, kNan);
    AdamWArgs poisoned = args;
    poisoned.grad = grad;
    std::vector<Tensor> results = run_adamw(backend, poisoned);
    CHECK(std::isnan(element(results[0], 3).real()));
    CHECK(std::isnan(backend.optim->sum_squares(grad)));
    set_element(grad, 3, std::numeric_limits<double>::infinity());
    CHECK(std::isinf(backend.optim->sum_squares(grad)));
    return results;
  });
}

}  // namespace

}  // namespace zaya
