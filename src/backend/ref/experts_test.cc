// SPDX-License-Identifier: Apache-2.0
#include "backend/experts.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "backend/ref/gradient_check.h"

namespace zaya::ref {

using Type = GradientCheck::Type;

namespace {

RowPlan make_plan(TestArena& arena, Index num_tokens, Index num_experts) {
  RowPlan plan;
  plan.row_of_token = arena.take(DType::i32, {num_tokens});
  plan.token_of_row = arena.take(DType::i32, {max_expert_rows(num_tokens, num_experts)});
  plan.offsets = arena.take(DType::i32, {num_experts + 1});
  plan.loads = arena.take(DType::i64, {num_experts + 1});
  return plan;
}

Index integer(const ConstTensor& x, Index i) { return static_cast<Index>(element(x, i).real()); }

// Every property that the rows of a plan must have.
void check_plan(const ConstTensor& choice, Index num_experts, const RowPlan& plan) {
  std::vector<Index> loads(num_experts + 1);
  for (Index t = 0; t < choice.count(); ++t) ++loads[integer(choice, t)];
  for (Index e = 0; e <= num_experts; ++e) CHECK(integer(plan.loads, e) == loads[e]);
  CHECK(integer(plan.offsets, 0) == 0);
  const Index used = integer(plan.offsets, num_experts);
  CHECK(used <= plan.token_of_row.count());
  for (Index e = 0; e < num_experts; ++e) {
    const Index begin = integer(plan.offsets, e), end = integer(plan.offsets, e + 1);
    CHECK(end - begin == (loads[e] + kRowPadding - 1) / kRowPadding * kRowPadding);
    for (Index r = begin; r < end; ++r) {
      const Index t = integer(plan.token_of_row, r);
      const bool is_padding = r - begin >= loads[e];
      CHECK((t == -1) == is_padding);
      if (is_padding) continue;
      CHECK(integer(choice, t) == e);
      CHECK(integer(plan.row_of_token, t) == r);
      if (r > begin) CHECK(t > integer(plan.token_of_row, r - 1));
    }
  }
  for (Index r = used; r < plan.token_of_row.count(); ++r) {
    CHECK(integer(plan.token_of_row, r) == -1);
  }
  for (Index t = 0; t < choice.count(); ++t) {
    if (integer(choice, t) == num_experts) CHECK(integer(plan.row_of_token, t) == -1);
  }
}

// A whole layer of experts: forward keeps rows, gate and up, activation and results.
struct Layer {
  Index tokens, experts, width, inner;
  bool skip_is_identity;
  std::vector<double> choices;
  int x = 0, w1 = 0, w2 = 0, weight = 0, out = 0;

  RowPlan dispatch(GradientRun& r) const {
    const RowPlan plan = make_plan(r.arena, tokens, experts);
    r.backend.experts->dispatch(list_tensor(r.arena, DType::i32, choices), experts, plan);
    return plan;
  }

  // Rows that no kernel has written spoil every result.
  Tensor take_rows(GradientRun& r, Index rows, Index columns) const {
    return filled_tensor(r.arena, r.backend.compute(), {rows, columns},
                         std::numeric_limits<double>::quiet_NaN());
  }

  void forward(GradientRun& r) const {
    const auto& k = r.backend.experts;
    const RowPlan plan = dispatch(r);
    const Index rows = plan.token_of_row.count();
    r.saved = {take_rows(r, rows, width), take_rows(r, rows, 2 * inner)};
    const Tensor a = take_rows(r, rows, inner), y = take_rows(r, rows, width);
    k->gather(r.in[x], plan, r.saved[0]);
    k->grouped_forward(r.saved[0], r.in[w1], plan, r.saved[1]);
    k->swiglu_forward(r.saved[1], plan, a);
    k->grouped_forward(a, r.in[w2], plan, y);
    k->combine_forward(y, r.in[x], r.in[weight], plan, skip_is_identity, r.out[out]);
  }

  void backward(GradientRun& r) const {
    const auto& k = r.backend.experts;
    const RowPlan plan = dispatch(r);
    const Index rows = plan.token_of_row.count();
    const Tensor dy = take_rows(r, rows, width), drows = take_rows(r, rows, width);
    const Tensor da = take_rows(r, rows, inner), wa = take_rows(r, rows, inner);
    const Tensor dgu = take_rows(r, rows, 2 * inner);
    k->gather(r.dout[out], plan, dy);
    k->grouped_backward_input(dy, r.in[w2], plan, da);
    k->swiglu_backward(r.saved[1], da, r.in[weight], plan, dgu, wa, r.din[weight]);
    k->grouped_backward_weight(dy, wa, plan, r.din[w2]);
    k->grouped_backward_weight(dgu, r.saved[0], plan, r.din[w1]);
    k->grouped_backward_input(dgu, r.in[w1], plan, drows);
    k->combine_backward(drows, r.dout[out], r.in[x], r.in[weight], plan, skip_is_identity, r.din[x],
                        r.din[weight]);
  }
};

}  // namespace

TEST_CASE("dispatch sorts tokens by expert, keeps their order and pads every expert to 16 rows") {
  for (const Index tokens : {1, 7, 16, 33, 100}) {
    for (const Index experts : {1, 3, 40}) {
      TestArena arena;
      const Rng rng(3, "choices");
      const Tensor choice = arena.take(DType::i32, {tokens});
      for (Index t = 0; t < tokens; ++t) {
        // Squared, so that loads are uneven and some experts stay empty.
        const double u = rng.uniform(t);
        set_element(choice, t, std::floor(u * u * static_cast<double>(experts + 1)));
      }
      const RowPlan plan = make_plan(arena, tokens, experts);
      make_ref_backend(Numerics::f32).experts->dispatch(choice, experts, plan);
      check_plan(choice, experts, plan);
    }
  }
}

TEST_CASE("the row limit holds when all tokens skip, share one expert or have one each") {
  for (const int kind : {0, 1, 2}) {
    TestArena arena;
    const Index tokens = 20, experts = 20;
    const Tensor choice = arena.take(DType::i32, {tokens});
    for (Index t = 0; t < tokens; ++t) {
      set_element(choice, t, kind == 0 ? 20.0 : kind == 1 ? 3.0 : static_cast<double>(19 - t));
    }
    const RowPlan plan = make_plan(arena, tokens, experts);
    make_ref_backend(Numerics::f32).experts->dispatch(choice, experts, plan);
    check_plan(choice, experts, plan);
  }
}

TEST_CASE("the gradients of the experts agree with complex steps, skip being zero or identity") {
  for (const bool skip_is_identity : {false, true}) {
    // Expert 1 has no token, expert 0 more than 16, class 3 is skip.
    Layer layer{24, 3, 4, 3, skip_is_identity, {}};
    for (Index t = 0; t < 24; ++t) layer.choices.push_back(t % 8 == 3 ? 3 : t % 8 == 5 ? 2 : 0);
    GradientCheck check;
    layer.x = check.input("x", Type::compute, {24, 4});
    layer.w1 = check.parameter("w1", Type::compute, {3, 6, 4});
    layer.w2 = check.parameter("w2", Type::compute, {3, 4, 3});
    layer.weight = check.input("weight", Type::stream, {24});
    layer.out = check.output("out", Type::compute, {24, 4});
    check.run([&](GradientRun& r) { layer.forward(r); },
              [&](GradientRun& r) { layer.backward(r); });
  }
}

TEST_CASE("padding rows become zero, rows behind the last expert and absent experts stay") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f32);
  const RowPlan plan = make_plan(arena, 3, 2);
  backend.experts->dispatch(list_tensor(arena, DType::i32, {1, 2, 1}), 2, plan);
  const Tensor x = random_tensor(arena, DType::f32, {3, 2}, "x");
  const Index rows = plan.token_of_row.count();
  REQUIRE(rows > 16);
  const Tensor sorted = filled_tensor(arena, DType::f32, {rows, 2}, 7);
  backend.experts->gather(x, plan, sorted);
  CHECK(equal_bits(sorted[0], x[0]));
  CHECK(equal_bits(sorted[1], x[2]));
  CHECK(element(sorted, 2 * 2).real() == 0);
  CHECK(element(sorted, 15 * 2 + 1).real() == 0);
  CHECK(element(sorted, 16 * 2).real() == 7);
  const Tensor dw = filled_tensor(arena, DType::f32, {2, 2, 2}, 1);
  backend.experts->grouped_backward_weight(sorted, sorted, plan, dw);
  CHECK(values(dw[0]) == std::vector<double>{1, 1, 1, 1});
  CHECK(element(dw[1], 0).real() > 1);
}

}  // namespace zaya::ref
