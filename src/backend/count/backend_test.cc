// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"

#include <doctest/doctest.h>

#include "tensor/arena.h"

namespace zaya {

namespace {

struct Fixture {
  WorkCount count;
  Backend backend = make_count_backend(Numerics::bf16, count);
  Arena arena = Arena::dry("test");

  Tensor stream(Shape shape) { return arena.take(DType::f32, shape); }
  Tensor compute(Shape shape) { return arena.take(DType::bf16, shape); }
};

}  // namespace

TEST_CASE("matrix products count two operations per multiply-add and no bytes") {
  Fixture f;
  const Tensor x = f.compute({5, 7}), w = f.compute({3, 7}), y = f.compute({5, 3});
  f.backend.gemm->forward(x, w, {}, y);
  CHECK(f.count.product_flops == 2 * 5 * 7 * 3);
  f.backend.gemm->backward_input(y, w, x, false);
  f.backend.gemm->backward_weight(y, x, f.stream({3, 7}), {});
  CHECK(f.count.product_flops == 3 * 2 * 5 * 7 * 3);
  CHECK(f.count.bytes == 0);
  f.count = {};
  f.backend.gemm->symmetric(x, 1, {}, 0, f.compute({5, 5}));
  CHECK(f.count.product_flops == 2 * 15 * 7);
}

TEST_CASE("attention counts the pairs that see each other") {
  Fixture f;
  const Tensor q = f.compute({6, 4, 8}), k = f.compute({9, 2, 8}), lse = f.stream({6, 4});
  const std::vector<AttentionSpan> spans = {{0, 4, 0, 4}, {4, 6, 4, 9}};
  // 1 + 2 + 3 + 4 pairs, and 4 + 5.
  AttentionArgs args{q, k, k, spans, 0, {}};
  f.backend.attention->forward(args, q, lse);
  CHECK(f.count.product_flops == 19 * 4 * 4 * 8);
  f.count = {};
  args.window = 3;
  f.backend.attention->backward(args, q, lse, q, lse, q, k, k);
  CHECK(f.count.product_flops == (1 + 2 + 3 + 3 + 3 + 3) * 4 * 8 * 8);
}

TEST_CASE("experts count a row per token, and the loss three products with gradients") {
  Fixture f;
  RowPlan plan;
  plan.row_of_token = f.arena.take(DType::i32, {10});
  plan.token_of_row = f.arena.take(DType::i32, {max_expert_rows(10, 4)});
  plan.offsets = f.arena.take(DType::i32, {5});
  plan.loads = f.arena.take(DType::i64, {5});
  const Tensor rows = f.compute({plan.token_of_row.count(), 3}), w = f.compute({4, 5, 3});
  f.backend.experts->grouped_forward(rows, w, plan, f.compute({plan.token_of_row.count(), 5}));
  CHECK(f.count.product_flops == 2 * 10 * 3 * 5);
  f.count = {};
  const LossArgs args{f.compute({10, 3}),
                      f.compute({20, 3}),
                      {},
                      f.arena.take(DType::i32, {10}),
                      f.stream({10, 20})};
  CHECK(f.backend.loss->cross_entropy(args, nullptr, {}) == 0);
  CHECK(f.count.product_flops == 2 * 10 * 3 * 20);
  const LossGradients d{1, f.compute({10, 3}), f.stream({20, 3}), {}};
  f.backend.loss->cross_entropy(args, &d, {});
  CHECK(f.count.product_flops == 4 * 2 * 10 * 3 * 20);
}

TEST_CASE("element-wise kernels count each byte read or written once") {
  Fixture f;
  f.backend.move->copy(f.stream({4, 6}), f.compute({4, 6}));
  CHECK(f.count.bytes == 24 * (4 + 2));
  f.count = {};
  f.backend.norm->rms_forward(f.stream({4, 6}), f.stream({6}), 1e-5, f.compute({4, 6}),
                              f.stream({4}));
  CHECK(f.count.bytes == 24 * 4 + 6 * 4 + 24 * 2 + 4 * 4);
  CHECK(f.count.product_flops == 0);
  f.count = {};
  AdamWArgs args;
  args.value = args.first_moment = args.second_moment = f.stream({10});
  args.grad = args.value;
  f.backend.optim->adamw(args);
  CHECK(f.count.bytes == 10 * 4 * 7);
}

}  // namespace zaya
