// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "backend/cpu/elementwise_testing.h"

namespace zaya {

namespace {

struct Sizes {
  Index tokens, width;
};

// y has the stream or the compute type.
std::vector<Tensor> run_norm(const Backend& backend, TestArena& arena, const Sizes& s,
                             bool to_compute, double poison) {
  const DType stream = backend.stream(), result = to_compute ? backend.compute() : stream;
  const Tensor x = random_tensor(arena, stream, {s.tokens, s.width}, "x", 2, 0.3);
  const Tensor w = random_tensor(arena, stream, {s.width}, "w", 0.5, 1);
  if (poison != 0) set_element(x, x.count() / 2, poison);
  const Tensor y = arena.take(result, {s.tokens, s.width}),
               inv_rms = arena.take(stream, {s.tokens});
  // Of a row of one element only eps has a gradient.
  const double eps = s.width == 1 ? 0.5 : 1e-5;
  backend.norm->rms_forward(x, w, eps, y, inv_rms);
  const Tensor dy = random_tensor(arena, result, {s.tokens, s.width}, "dy");
  const Tensor dx = arena.take(stream, {s.tokens, s.width});
  const Tensor dw = random_tensor(arena, stream, {s.width}, "dw");
  backend.norm->rms_backward(x, w, inv_rms, dy, dx, dw);
  return {y, inv_rms, dx, dw};
}

TEST_CASE("the norm agrees with its definition for every length of row") {
  for (const Numerics numerics : kRunNumerics) {
    for (const Index width : kLengths) {
      CAPTURE(width);
      for (const Index tokens : {1, 5, 131}) {
        compare_elementwise(numerics, [&](const Backend& backend, TestArena& arena) {
          return run_norm(backend, arena, {tokens, width}, tokens != 5, 0);
        });
      }
    }
  }
}

TEST_CASE("the norm works on column windows that start off alignment") {
  compare_elementwise(Numerics::bf16, [&](const Backend& backend, TestArena& arena) {
    const Tensor x = random_window(arena, DType::f32, 9, 37, "x");
    const Tensor w = random_tensor(arena, DType::f32, {38}, "w").slice(1, 38);
    const Tensor y = random_window(arena, backend.compute(), 9, 37, "y");
    const Tensor inv_rms = arena.take(DType::f32, {9});
    backend.norm->rms_forward(x, w, 1e-5, y, inv_rms);
    const Tensor dx = random_window(arena, DType::f32, 9, 37, "dx");
    const Tensor dw = filled_tensor(arena, DType::f32, {37}, 0);
    backend.norm->rms_backward(x, w, inv_rms, y, dx, dw);
    return std::vector{y, inv_rms, dx, dw};
  });
}

TEST_CASE("a NaN in a row of the norm stays in that row and in the weight gradient") {
  for (const Numerics numerics : kRunNumerics) {
    compare_nans(numerics, [](const Backend& backend, TestArena& arena) {
      const std::vector<Tensor> results = run_norm(backend, arena, {3, 20}, true, kNan);
      CHECK(std::isnan(element(results[0], 20).real()));
      CHECK(std::isfinite(element(results[0], 0).real()));
      return results;
    });
  }
}

}  // namespace

}  // namespace zaya
