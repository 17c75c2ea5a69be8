// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <limits>

#include "backend/cpu/cpu_testing.h"

namespace zaya {

namespace {

struct Case {
  Index tokens, experts, width, inner;
  std::vector<double> choices;
};

// Loads as in real runs: the first experts get most tokens, one gets none, some tokens skip.
std::vector<double> uneven_choices(Index tokens, Index experts) {
  std::vector<double> choices;
  const Rng rng(1, "choices");
  for (Index t = 0; t < tokens; ++t) {
    const double u = std::abs(rng.normal(t)) * 0.4;
    Index e = std::min<Index>(experts, static_cast<Index>(u * static_cast<double>(experts)));
    if (e == experts / 2) e = 0;
    choices.push_back(static_cast<double>(e));
  }
  return choices;
}

RowPlan make_plan(TestArena& arena, Index tokens, Index experts) {
  return {.row_of_token = arena.take(DType::i32, {tokens}),
          .token_of_row = arena.take(DType::i32, {max_expert_rows(tokens, experts)}),
          .offsets = arena.take(DType::i32, {experts + 1}),
          .loads = arena.take(DType::i64, {experts + 1})};
}

// The whole expert layer forward and backward, every kernel once.
std::vector<Tensor> run_experts(const Backend& backend, TestArena& arena, const Case& c,
                                bool skip_is_identity) {
  const DType compute = backend.compute(), stream = backend.stream();
  const RowPlan plan = make_plan(arena, c.tokens, c.experts);
  const Index rows = max_expert_rows(c.tokens, c.experts), f = c.inner, width = c.width;
  const Tensor choice = list_tensor(arena, DType::i32, c.choices);
  const Tensor x = random_tensor(arena, compute, {c.tokens, width}, "x");
  const Tensor weight = random_tensor(arena, stream, {c.tokens}, "weight", 0.2, 0.5);
  const Tensor w1 = random_tensor(arena, compute, {c.experts, 2 * f, width}, "w1", 0.3);
  const Tensor w2 = random_tensor(arena, compute, {c.experts, width, f}, "w2", 0.3);
  const auto take = [&](Index columns) {
    return filled_tensor(arena, compute, {rows, columns}, 0);
  };
  const Tensor xr = take(width), gu = take(2 * f), a = take(f), y = take(width);
  const Tensor dyr = take(width), da = take(f), dgu = take(2 * f), wa = take(f), dxr = take(width);
  const Tensor out = arena.take(compute, {c.tokens, width});
  const Tensor dx = arena.take(compute, {c.tokens, width});
  const Tensor dout = random_tensor(arena, compute, {c.tokens, width}, "dout");
  const Tensor dweight = arena.take(stream, {c.tokens});
  const Tensor dw1 = random_tensor(arena, stream, {c.experts, 2 * f, width}, "dw1");
  const Tensor dw2 = random_tensor(arena, stream, {c.experts, width, f}, "dw2");
  ExpertKernels& e = *backend.experts;
  e.dispatch(choice, c.experts, plan);
  e.gather(x, plan, xr);
  e.grouped_forward(xr, w1, plan, gu);
  e.swiglu_forward(gu, plan, a);
  e.grouped_forward(a, w2, plan, y);
  e.combine_forward(y, x, weight, plan, skip_is_identity, out);
  e.gather(dout, plan, dyr);
  e.grouped_backward_input(dyr, w2, plan, da);
  e.swiglu_backward(gu, da, weight, plan, dgu, wa, dweight);
  e.grouped_backward_weight(dyr, wa, plan, dw2);
  e.grouped_backward_weight(dgu, xr, plan, dw1);
  e.grouped_backward_input(dgu, w1, plan, dxr);
  e.combine_backward(dxr, dout, x, weight, plan, skip_is_identity, dx, dweight);
  return {
      plan.row_of_token, plan.token_of_row, plan.offsets, plan.loads, out, dx, dweight, dw1, dw2};
}

void compare_case(const Case& c) {
  for (const Numerics numerics : kRunNumerics) {
    for (const bool skip_is_identity : {false, true}) {
      run_on_both(
          numerics,
          [&](const Backend& backend, TestArena& arena) {
            return run_experts(backend, arena, c, skip_is_identity);
          },
          [&](const Tensor& result, const Tensor& expected) {
            // Chains of products: each adds its rounding.
            const double tolerance = numerics == Numerics::bf16 ? 3 * kTolerance16 : 2 * kTolerance;
            CHECK(relative_error(result, expected) <= tolerance);
          });
    }
  }
}

TEST_CASE("experts agree with their definition for uneven loads with an empty expert") {
  for (const Index tokens : {1, 3, 17, 100, 333}) {
    CAPTURE(tokens);
    compare_case({tokens, 6, 33, 20, uneven_choices(tokens, 6)});
  }
}

TEST_CASE("one expert may get all tokens, or all tokens may skip") {
  compare_case({50, 4, 16, 16, std::vector<double>(50, 3)});
  compare_case({50, 4, 16, 16, std::vector<double>(50, 4)});
  compare_case({20, 1, 16, 16, std::vector<double>(20, 0)});
}

TEST_CASE("wide experts are cut into tiles") {
  compare_case({290, 2, 150, 140, uneven_choices(290, 2)});
}

TEST_CASE("tokens keep their order within an expert, and rows are padded to groups of 16") {
  const std::optional<InstructionSet> set = tested_instruction_set();
  if (!set) return;
  ThreadPool pool(2);
  const Backend backend = make_cpu_backend(Numerics::f32, pool, *set);
  TestArena arena;
  const RowPlan plan = make_plan(arena, 5, 3);
  backend.experts->dispatch(list_tensor(arena, DType::i32, {2, 0, 2, 3, 2}), 3, plan);
  CHECK(values(plan.row_of_token) == std::vector<double>{16, 0, 17, -1, 18});
  CHECK(values(plan.offsets) == std::vector<double>{0, 16, 16, 32});
  CHECK(values(plan.loads) == std::vector<double>{1, 0, 3, 1});
  CHECK(element(plan.token_of_row, 0).real() == 1);
  CHECK(element(plan.token_of_row, 1).real() == -1);
  CHECK(element(plan.token_of_row, 18).real() == 4);
}

TEST_CASE("a NaN in one token stays with that token in forward") {
  for (const Numerics numerics : kRunNumerics) {
    for (const Index tokens : {20, 60}) {
      compare_nans(numerics, [&](const Backend& backend, TestArena& arena) {
        const DType compute = backend.compute();
        const RowPlan plan = make_plan(arena, tokens, 2);
        const Tensor choice = filled_tensor(arena, DType::i32, {tokens}, 1);
        const Tensor x = random_tensor(arena, compute, {tokens, 16}, "x");
        set_element(x, 3 * 16 + 2, std::numeric_limits<double>::quiet_NaN());
        const Tensor w = random_tensor(arena, compute, {2, 32, 16}, "w");
        const Index rows = max_expert_rows(tokens, 2);
        const Tensor xr = filled_tensor(arena, compute, {rows, 16}, 0);
        const Tensor gu = filled_tensor(arena, compute, {rows, 32}, 0);
        const Tensor a = filled_tensor(arena, compute, {rows, 16}, 0);
        backend.experts->dispatch(choice, 2, plan);
        backend.experts->gather(x, plan, xr);
        backend.experts->grouped_forward(xr, w, plan, gu);
        backend.experts->swiglu_forward(gu, plan, a);
        CHECK(std::isnan(element(a, 3 * 16).real()));
        return std::vector{gu, a};
      });
    }
  }
}

}  // namespace

}  // namespace zaya
