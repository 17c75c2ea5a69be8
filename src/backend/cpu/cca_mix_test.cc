// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>

#include "backend/cpu/elementwise_testing.h"

namespace zaya {

namespace {

struct Sizes {
  Index tokens, query_heads, key_heads, channels, half;
};

std::vector<Tensor> run_mix(const Backend& backend, TestArena& arena, const Sizes& s, double scale,
                            double poison) {
  const DType stream = backend.stream(), compute = backend.compute();
  const Index heads = s.query_heads + s.key_heads, width = heads * s.channels;
  QkMixArgs args;
  args.query_heads = s.query_heads;
  args.key_heads = s.key_heads;
  args.qk0 = random_tensor(arena, compute, {s.tokens, width}, "qk0", scale);
  const Tensor z = random_tensor(arena, compute, {s.tokens, width}, "z", scale);
  if (poison != 0) set_element(z, 0, poison);
  args.z = z;
  args.temp = random_tensor(arena, stream, {s.key_heads}, "temp", 0.3, 1);
  const Tensor positions = arena.take(DType::i32, {s.tokens});
  for (Index t = 0; t < s.tokens; ++t) set_element(positions, t, static_cast<double>(t % 11));
  args.positions = positions;
  const Tensor rotary = arena.take(stream, {11, 2, s.half});
  for (Index i = 0; i < rotary.count(); ++i) {
    const double angle = 0.3 * static_cast<double>(i / (2 * s.half) * (i % s.half + 1));
    set_element(rotary, i, i / s.half % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }
  args.rotary = rotary;
  const Tensor q = arena.take(compute, {s.tokens, s.query_heads, s.channels});
  const Tensor k = arena.take(compute, {s.tokens, s.key_heads, s.channels});
  const Tensor norm = arena.take(stream, {s.tokens, heads});
  backend.cca->mix_forward(args, q, k, norm);
  const Tensor dq = random_tensor(arena, compute, {s.tokens, s.query_heads, s.channels}, "dq");
  const Tensor dk = random_tensor(arena, compute, {s.tokens, s.key_heads, s.channels}, "dk");
  const Tensor dz = arena.take(compute, {s.tokens, width});
  const Tensor dqk0 = arena.take(compute, {s.tokens, width});
  const Tensor dtemp = random_tensor(arena, stream, {s.key_heads}, "dtemp");
  backend.cca->mix_backward(args, norm, dq, dk, dz, dqk0, dtemp);
  return {q, k, norm, dz, dqk0, dtemp};
}

TEST_CASE("means, norms and rotation agree with their definition for every length of head") {
  for (const Numerics numerics : kRunNumerics) {
    for (const Index channels : kLengths) {
      if (channels == 1) continue;
      CAPTURE(channels);
      for (const Sizes& s :
           {Sizes{1, 2, 1, channels, channels / 2}, Sizes{70, 4, 2, channels, channels / 4},
            Sizes{5, 3, 3, channels, channels / 2}}) {
        compare_elementwise(numerics, [&](const Backend& backend, TestArena& arena) {
          return run_mix(backend, arena, s, 1, 0);
        });
      }
    }
  }
}

TEST_CASE("heads shorter than eps are divided by eps") {
  for (const Numerics numerics : kRunNumerics) {
    compare_elementwise(numerics, [](const Backend& backend, TestArena& arena) {
      return run_mix(backend, arena, {5, 4, 2, 20, 8}, 1e-9, 0);
    });
    compare_elementwise(numerics, [](const Backend& backend, TestArena& arena) {
      const std::vector<Tensor> results = run_mix(backend, arena, {2, 2, 1, 16, 8}, 0, 0);
      for (const double value : values(results[0])) CHECK(value == 0);
      return results;
    });
  }
}

TEST_CASE("a NaN in a query head stays in that head") {
  for (const Numerics numerics : kRunNumerics) {
    compare_nans(numerics, [](const Backend& backend, TestArena& arena) {
      const std::vector<Tensor> results = run_mix(backend, arena, {2, 2, 1, 20, 5}, 1, kNan);
      CHECK(std::isnan(element(results[0], 19).real()));
      CHECK(std::isfinite(element(results[0], 20).real()));
      return results;
    });
  }
}

struct Delay {
  bool has_bias, has_history;
};

std::vector<Tensor> run_values(const Backend& backend, TestArena& arena, Index half,
                               const Delay& delay) {
  const DType stream = backend.stream(), compute = backend.compute();
  std::vector<Segment> segments = {{0, 1}, {1, 64}, {64, 100}, {100, 128}, {128, 130}};
  const Index tokens = segments.back().end;
  Tensor bias, history, dbias;
  if (delay.has_bias) {
    bias = random_tensor(arena, stream, {half}, "bias");
    dbias = random_tensor(arena, stream, {half}, "dbias");
  }
  if (delay.has_history) {
    history = random_tensor(arena, compute, {3, half}, "history");
    segments[1].history = 2;
    segments[3].history = 0;
  }
  const Tensor vcd = random_tensor(arena, compute, {tokens, 2 * half}, "vcd");
  const Tensor v = arena.take(compute, {tokens, 2 * half});
  backend.cca->values_forward(vcd, bias, history, segments, v);
  const Tensor dv = random_tensor(arena, compute, {tokens, 2 * half}, "dv");
  const Tensor dvcd = arena.take(compute, {tokens, 2 * half});
  backend.cca->values_backward(dv, segments, dvcd, dbias);
  if (!delay.has_bias) return {v, dvcd};
  return {v, dvcd, dbias};
}

TEST_CASE("delayed values keep to their segments, with bias and history or without") {
  for (const Numerics numerics : kRunNumerics) {
    for (const Index half : kLengths) {
      CAPTURE(half);
      for (const Delay& delay : {Delay{false, false}, Delay{true, false}, Delay{true, true}}) {
        compare_elementwise(numerics, [&](const Backend& backend, TestArena& arena) {
          return run_values(backend, arena, half, delay);
        });
      }
    }
  }
}

}  // namespace

}  // namespace zaya
