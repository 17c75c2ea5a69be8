// SPDX-License-Identifier: Apache-2.0
#include "backend/loss.h"

#include <doctest/doctest.h>

#include "backend/ref/gradient_check.h"

namespace zaya::ref {

using Type = GradientCheck::Type;

TEST_CASE("the gradients of the loss agree with complex steps, in chunks, with ignored targets") {
  const std::vector<double> tokens = {2, -1, 0, 5, -1, 5, 1};
  for (const bool has_bias : {false, true}) {
    GradientCheck check;
    const double scale = 0.25;
    const int x = check.input("x", Type::compute, {7, 4});
    const int w = check.parameter("w", Type::compute, {6, 4});
    const int bias = has_bias ? check.parameter("bias", Type::stream, {6}) : -1;
    const int logprobs = check.output("logprobs", Type::stream, {7}, -scale);
    const auto args = [&](GradientRun& r) {
      LossArgs a{r.in[x], r.in[w], {}, list_tensor(r.arena, DType::i32, tokens), {}};
      if (has_bias) a.bias = r.in[bias];
      a.scratch = r.take_stream({3, 6});
      return a;
    };
    check.run(
        [&](GradientRun& r) {
          const double loss = r.backend.loss->cross_entropy(args(r), nullptr, r.out[logprobs]);
          double sum = 0;
          for (const double value : values(r.out[logprobs])) sum -= value;
          CHECK(loss == doctest::Approx(sum).epsilon(1e-6));
        },
        [&](GradientRun& r) {
          const LossGradients d{scale, r.din[x], r.din[w], has_bias ? r.din[bias] : Tensor{}};
          r.backend.loss->cross_entropy(args(r), &d, {});
        });
  }
}

TEST_CASE("the loss of equal logits is the log of the vocabulary, once per target") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f32);
  LossArgs args;
  args.x = filled_tensor(arena, DType::f32, {3, 2}, 1);
  args.w = filled_tensor(arena, DType::f32, {8, 2}, 1e4);
  args.targets = list_tensor(arena, DType::i32, {0, -1, 7});
  args.scratch = arena.take(DType::f32, {loss_chunk_rows(3, 8), 8});
  const Tensor logprobs = filled_tensor(arena, DType::f32, {3}, 9);
  CHECK(backend.loss->cross_entropy(args, nullptr, logprobs) ==
        doctest::Approx(2 * std::log(8.0)).epsilon(1e-12));
  CHECK(element(logprobs, 1).real() == 0);
  CHECK(element(logprobs, 2).real() == doctest::Approx(-std::log(8.0)));
}

}  // namespace zaya::ref
