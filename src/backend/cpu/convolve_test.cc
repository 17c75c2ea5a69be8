// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <limits>

#include "backend/cpu/cpu_testing.h"

namespace zaya {

namespace {

struct Case {
  Index tokens, heads, channels, k0, k1;
  std::vector<Segment> segments;
  bool has_history = false;
};

std::vector<Tensor> run_convolve(const Backend& backend, TestArena& arena, const Case& c,
                                 bool is_poisoned = false) {
  const DType compute = backend.compute(), stream = backend.stream();
  const Index width = c.heads * c.channels;
  const Tensor qk0 = random_tensor(arena, compute, {c.tokens, width}, "qk0");
  if (is_poisoned) set_element(qk0, 20 * width, std::numeric_limits<double>::quiet_NaN());
  ConvolveArgs args;
  args.heads = c.heads;
  args.qk0 = qk0;
  if (c.has_history)
    args.history = random_tensor(arena, compute, {3, c.k0 + c.k1 - 2, width}, "history");
  args.w0 = random_tensor(arena, stream, {width, 1, c.k0}, "w0");
  args.b0 = random_tensor(arena, stream, {width}, "b0");
  args.w1 = random_tensor(arena, compute, {width, c.channels, c.k1}, "w1", 0.3);
  args.b1 = random_tensor(arena, stream, {width}, "b1");
  args.segments = c.segments;
  const Tensor z = arena.take(compute, {c.tokens, width});
  backend.cca->convolve_forward(args, z);
  if (c.has_history || is_poisoned) return {z};
  const Tensor dz = random_tensor(arena, compute, {c.tokens, width}, "dz");
  const Tensor dqk0 = random_tensor(arena, compute, {c.tokens, width}, "dqk0");
  const ConvolveGradients d{.w0 = random_tensor(arena, stream, {width, 1, c.k0}, "dw0"),
                            .b0 = random_tensor(arena, stream, {width}, "db0"),
                            .w1 = random_tensor(arena, stream, {width, c.channels, c.k1}, "dw1"),
                            .b1 = random_tensor(arena, stream, {width}, "db1")};
  backend.cca->convolve_backward(args, dz, dqk0, d);
  return {z, dqk0, d.w0, d.b0, d.w1, d.b1};
}

void compare_case(const Case& c) {
  for (const Numerics numerics : kRunNumerics) {
    compare(numerics, [&](const Backend& backend, TestArena& arena) {
      return run_convolve(backend, arena, c);
    });
  }
}

TEST_CASE("convolutions agree with their definition for any number of tokens") {
  for (const Index n : {1, 3, 7, 16, 17, 31, 33, 64, 65, 130, 270}) {
    CAPTURE(n);
    compare_case({n, 3, 8, 2, 2, {{0, n, -1}}});
  }
}

TEST_CASE("kernels of any size work") {
  for (const Index k0 : {1, 2, 4}) {
    for (const Index k1 : {1, 3}) {
      CAPTURE(k0);
      CAPTURE(k1);
      compare_case({40, 2, 5, k0, k1, {{0, 40, -1}}});
    }
  }
}

TEST_CASE("convolutions do not cross the borders of documents") {
  compare_case(
      {140,
       2,
       16,
       3,
       3,
       {{0, 1, -1}, {1, 3, -1}, {3, 63, -1}, {63, 66, -1}, {66, 128, -1}, {128, 140, -1}}});
}

TEST_CASE("heads of odd width work") {
  compare_case({50, 3, 33, 2, 2, {{0, 20, -1}, {20, 50, -1}}});
}

TEST_CASE("a decode step continues from its history") {
  compare_case({3, 3, 16, 2, 2, {{0, 1, 2}, {1, 2, 0}, {2, 3, -1}}, true});
  compare_case({40, 3, 16, 3, 2, {{0, 1, 2}, {1, 30, 0}, {30, 40, -1}}, true});
  compare_case({5, 2, 8, 1, 1, {{0, 5, 1}}, true});
}

TEST_CASE("a NaN reaches only the tokens whose taps read it") {
  for (const Numerics numerics : kRunNumerics) {
    compare_nans(numerics, [](const Backend& backend, TestArena& arena) {
      const std::vector<Tensor> results =
          run_convolve(backend, arena, {40, 2, 8, 2, 2, {{0, 40, -1}}}, true);
      CHECK(std::isnan(element(results[0], 21 * 16).real()));
      return results;
    });
  }
}

}  // namespace

}  // namespace zaya
