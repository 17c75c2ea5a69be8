// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>

#include "backend/cpu/elementwise_testing.h"

namespace zaya {

namespace {

std::vector<Tensor> run_depth(const Backend& backend, TestArena& arena, Index tokens, Index width) {
  const DType stream = backend.stream();
  const Tensor prev = random_tensor(arena, stream, {tokens, width}, "prev");
  const Tensor scale = random_tensor(arena, stream, {width}, "scale");
  const Tensor h = random_tensor(arena, stream, {tokens, width}, "h");
  backend.router->depth_forward(prev, scale, h);
  const Tensor dh = random_tensor(arena, stream, {tokens, width}, "dh");
  const Tensor dprev = arena.take(stream, {tokens, width});
  // Far from zero, where the sum over tokens might end by chance.
  const Tensor dscale = random_tensor(arena, stream, {width}, "dscale", 1, 50);
  backend.router->depth_backward(prev, scale, dh, dprev, dscale);
  return {h, dprev, dscale};
}

std::vector<Tensor> run_gelu(const Backend& backend, TestArena& arena, Index tokens, Index width) {
  const DType stream = backend.stream();
  const Tensor x = random_tensor(arena, stream, {tokens, width}, "x", 2);
  const Tensor y = arena.take(stream, {tokens, width});
  backend.router->gelu_forward(x, y);
  const Tensor dx = random_tensor(arena, stream, {tokens, width}, "dy");
  backend.router->gelu_backward(x, dx, dx);
  return {y, dx};
}

std::vector<Tensor> run_choose(const Backend& backend, TestArena& arena, ConstTensor logits,
                               ConstTensor bias) {
  const DType stream = backend.stream();
  const Index tokens = logits.rows(), classes = logits.columns();
  const Tensor probs = arena.take(stream, {tokens, classes});
  const Tensor choice = arena.take(DType::i32, {tokens}), weight = arena.take(stream, {tokens});
  backend.router->choose_forward(logits, bias, probs, choice, weight);
  const Tensor dweight = random_tensor(arena, stream, {tokens}, "dweight");
  const Tensor dlogits = arena.take(stream, {tokens, classes});
  backend.router->choose_backward(probs, choice, dweight, dlogits);
  return {probs, choice, weight, dlogits};
}

TEST_CASE("depth averaging and gelu agree with their definitions for every length of row") {
  for (const Index width : kLengths) {
    CAPTURE(width);
    for (const Index tokens : {1, 133}) {
      compare_elementwise(Numerics::f32, [&](const Backend& backend, TestArena& arena) {
        return run_depth(backend, arena, tokens, width);
      });
      compare_elementwise(Numerics::f32, [&](const Backend& backend, TestArena& arena) {
        return run_gelu(backend, arena, tokens, width);
      });
    }
  }
}

TEST_CASE("probabilities and choices agree with their definition for every number of classes") {
  for (const Index classes : kLengths) {
    CAPTURE(classes);
    for (const Index tokens : {1, 133}) {
      compare_elementwise(Numerics::f32, [&](const Backend& backend, TestArena& arena) {
        const Tensor logits = random_tensor(arena, DType::f32, {tokens, classes}, "logits", 3);
        const Tensor bias = random_tensor(arena, DType::f32, {classes}, "bias", 0.1);
        return run_choose(backend, arena, logits, bias);
      });
    }
  }
}

TEST_CASE("the lowest class wins a tie, and huge logits stay finite") {
  compare_elementwise(Numerics::f32, [](const Backend& backend, TestArena& arena) {
    const Tensor logits = filled_tensor(arena, DType::f32, {2, 20}, -3e38);
    set_element(logits, 7, 3e38);
    set_element(logits, 9, 3e38);
    const Tensor bias = filled_tensor(arena, DType::f32, {20}, 0);
    const std::vector<Tensor> results = run_choose(backend, arena, logits, bias);
    CHECK(element(results[1], 0).real() == 7);
    CHECK(element(results[1], 1).real() == 0);
    CHECK(element(results[2], 0).real() == doctest::Approx(0.5));
    return results;
  });
}

TEST_CASE("a NaN in a token's logits gives NaN probabilities and a valid choice") {
  compare_nans(Numerics::f32, [](const Backend& backend, TestArena& arena) {
    const Tensor logits = random_tensor(arena, DType::f32, {3, 17}, "logits");
    set_element(logits, 20, kNan);
    const Tensor bias = filled_tensor(arena, DType::f32, {17}, 0);
    const std::vector<Tensor> results = run_choose(backend, arena, logits, bias);
    for (Index c = 0; c < 17; ++c) CHECK(std::isnan(element(results[0], 17 + c).real()));
    CHECK(element(results[1], 1).real() >= 0);
    CHECK(element(results[1], 1).real() < 17);
    return results;
  });
}

TEST_CASE("a NaN passes through depth averaging and gelu") {
  compare_nans(Numerics::f32, [](const Backend& backend, TestArena& arena) {
    const Tensor x = list_tensor(arena, DType::f32, {kNan, 1, -30, 30});
    const Tensor y = arena.take(DType::f32, {4}), dx = filled_tensor(arena, DType::f32, {4}, 1);
    backend.router->gelu_forward(x, y);
    backend.router->gelu_backward(x, dx, dx);
    CHECK(std::isnan(element(y, 0).real()));
    const Tensor h = filled_tensor(arena, DType::f32, {1, 4}, 1);
    backend.router->depth_forward(x.reshaped({1, 4}), y, h);
    return std::vector{y, dx, h};
  });
}

}  // namespace

}  // namespace zaya
