// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <limits>

#include "backend/cpu/cpu_testing.h"

namespace zaya {

namespace {

struct Sizes {
  Index tokens, width, vocabulary, chunk;
};

// Results of one loss with gradients, and of one without.
std::vector<Tensor> run_loss(const Backend& backend, TestArena& arena, const Sizes& s,
                             double poison) {
  const DType compute = backend.compute(), stream = backend.stream();
  const Tensor x = random_tensor(arena, compute, {s.tokens, s.width}, "x");
  const Tensor w = random_tensor(arena, compute, {s.vocabulary, s.width}, "w", 0.3);
  const Tensor targets = arena.take(DType::i32, {s.tokens});
  for (Index t = 0; t < s.tokens; ++t)
    set_element(targets, t, t % 5 == 3 ? -1 : static_cast<double>(t * 7919 % s.vocabulary));
  if (poison != 0) set_element(x, 0, poison);
  LossArgs args{.x = x, .w = w, .bias = {}, .targets = targets, .scratch = {}};
  args.bias = random_tensor(arena, stream, {s.vocabulary}, "bias");
  args.scratch = arena.take(stream, {s.chunk, s.vocabulary});
  LossGradients d;
  d.scale = 0.25;
  d.dx = arena.take(compute, {s.tokens, s.width});
  d.dw = random_tensor(arena, stream, {s.vocabulary, s.width}, "dw", 0.1);
  d.dbias = random_tensor(arena, stream, {s.vocabulary}, "dbias", 0.1);
  const Tensor logprobs = arena.take(stream, {s.tokens}), again = arena.take(stream, {s.tokens});
  const Tensor losses = arena.take(DType::f64, {2});
  set_element(losses, 0, backend.loss->cross_entropy(args, &d, logprobs));
  args.bias = {};
  set_element(losses, 1, backend.loss->cross_entropy(args, nullptr, again));
  return {losses, logprobs, again, d.dx, d.dw, d.dbias};
}

TEST_CASE("loss and gradients agree with their definition for any chunk") {
  for (const Numerics numerics : kRunNumerics) {
    for (const Sizes& s : std::vector<Sizes>{{1, 3, 7, 1},
                                             {17, 16, 33, 17},
                                             {40, 24, 128, 16},
                                             {33, 20, 1000, 32},
                                             {16, 8, 9001, 16}}) {
      CAPTURE(s.tokens);
      CAPTURE(s.vocabulary);
      compare(numerics, [&](const Backend& backend, TestArena& arena) {
        return run_loss(backend, arena, s, 0);
      });
    }
  }
}

TEST_CASE("a NaN in one token makes the loss NaN and leaves other tokens alone") {
  for (const Numerics numerics : kRunNumerics) {
    compare_nans(numerics, [](const Backend& backend, TestArena& arena) {
      const std::vector<Tensor> results =
          run_loss(backend, arena, {20, 8, 50, 16}, std::numeric_limits<double>::quiet_NaN());
      CHECK(std::isnan(element(results[0], 0).real()));
      return results;
    });
  }
}

TEST_CASE("logits of any size give a finite loss") {
  for (const Numerics numerics : kRunNumerics) {
    compare(numerics, [](const Backend& backend, TestArena& arena) {
      const Tensor x = filled_tensor(arena, backend.compute(), {2, 1}, 100);
      const Tensor w = arena.take(backend.compute(), {3, 1});
      for (Index i = 0; i < 3; ++i) set_element(w, i, 100.0 - 200.0 * static_cast<double>(i));
      LossArgs args{.x = x, .w = w, .bias = {}, .targets = {}, .scratch = {}};
      args.targets = list_tensor(arena, DType::i32, {2, 0});
      args.scratch = arena.take(DType::f32, {2, 3});
      const Tensor logprobs = arena.take(DType::f32, {2});
      CHECK(std::isfinite(backend.loss->cross_entropy(args, nullptr, logprobs)));
      return std::vector{logprobs};
    });
  }
}

}  // namespace

}  // namespace zaya
