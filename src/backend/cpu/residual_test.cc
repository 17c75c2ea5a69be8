// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "backend/cpu/elementwise_testing.h"

namespace zaya {

namespace {

struct Sizes {
  Index tokens, width;
};

std::vector<Tensor> run_mix(const Backend& backend, TestArena& arena, const Sizes& s,
                            double poison) {
  const DType stream = backend.stream(), compute = backend.compute();
  const Tensor r = random_tensor(arena, stream, {s.tokens, s.width}, "r", 3);
  const Tensor a = random_tensor(arena, compute, {s.tokens, s.width}, "a");
  if (poison != 0) set_element(r, 0, poison);
  const auto vector = [&](std::string_view name, double mean) {
    return random_tensor(arena, stream, {s.width}, name, 0.2, mean);
  };
  const MixVectors p = {vector("s_r", 1), vector("b_r", 0), vector("s_a", 1), vector("b_a", 0)};
  const MixGradients d = {vector("ds_r", 0), vector("db_r", 0), vector("ds_a", 0),
                          vector("db_a", 0)};
  const Tensor y = arena.take(stream, {s.tokens, s.width});
  backend.residual->mix_forward(r, a, p, y);
  const Tensor dr = random_tensor(arena, stream, {s.tokens, s.width}, "dy");
  const Tensor da = arena.take(compute, {s.tokens, s.width});
  backend.residual->mix_backward(r, a, p, dr, da, d);
  return {y, dr, da, d.s_r, d.b_r, d.s_a, d.b_a};
}

struct EntrySizes {
  Index tokens, vocabulary, width;
};

std::vector<Tensor> run_entry(const Backend& backend, TestArena& arena, const EntrySizes& s,
                              Index pad_id, double poison) {
  const DType stream = backend.stream();
  const Tensor ids = arena.take(DType::i32, {s.tokens});
  for (Index t = 0; t < s.tokens; ++t)
    set_element(ids, t, static_cast<double>(t * t * 31 % s.vocabulary));
  const Tensor table = random_tensor(arena, backend.compute(), {s.vocabulary, s.width}, "table");
  const Tensor b = random_tensor(arena, stream, {s.width}, "b", 0.1);
  const Tensor scale = random_tensor(arena, stream, {s.width}, "s", 0.1, 1);
  const Tensor x = arena.take(stream, {s.tokens, s.width});
  backend.residual->entry_forward(ids, table, b, scale, x);
  const Tensor dx = random_tensor(arena, stream, {s.tokens, s.width}, "dx");
  if (poison != 0) set_element(dx, 0, poison);
  const Tensor dtable = random_tensor(arena, stream, {s.vocabulary, s.width}, "dtable");
  const Tensor db = random_tensor(arena, stream, {s.width}, "db");
  const Tensor ds = random_tensor(arena, stream, {s.width}, "ds");
  backend.residual->entry_backward(ids, table, b, scale, dx, pad_id, dtable, db, ds);
  return {x, dtable, db, ds};
}

TEST_CASE("residual mixing agrees with its definition for every length of row") {
  for (const Numerics numerics : kRunNumerics) {
    for (const Index width : kLengths) {
      CAPTURE(width);
      for (const Index tokens : {1, 6, 131}) {
        compare_elementwise(numerics, [&](const Backend& backend, TestArena& arena) {
          return run_mix(backend, arena, {tokens, width}, 0);
        });
      }
    }
  }
}

TEST_CASE("entry agrees with its definition, repeated ids and the padding row included") {
  for (const Numerics numerics : kRunNumerics) {
    for (const Index width : kLengths) {
      CAPTURE(width);
      for (const EntrySizes& s : {EntrySizes{1, 3, width}, EntrySizes{140, 9, width}}) {
        for (const Index pad_id : {-1, 0}) {
          compare_elementwise(numerics, [&](const Backend& backend, TestArena& arena) {
            return run_entry(backend, arena, s, pad_id, 0);
          });
        }
      }
    }
  }
}

TEST_CASE("entry splits wide rows into stripes without a change of bits") {
  compare_elementwise(Numerics::bf16, [](const Backend& backend, TestArena& arena) {
    return run_entry(backend, arena, {70, 12, 1100}, -1, 0);
  });
}

TEST_CASE("a NaN passes through entry and residual mixing") {
  for (const Numerics numerics : kRunNumerics) {
    compare_nans(numerics, [](const Backend& backend, TestArena& arena) {
      const std::vector<Tensor> results = run_mix(backend, arena, {3, 20}, kNan);
      CHECK(std::isnan(element(results[0], 0).real()));
      return results;
    });
    compare_nans(numerics, [](const Backend& backend, TestArena& arena) {
      const std::vector<Tensor> results = run_entry(backend, arena, {4, 3, 20}, -1, kNan);
      CHECK(std::isnan(element(results[1], 0).real()));
      return results;
    });
  }
}

}  // namespace

}  // namespace zaya
