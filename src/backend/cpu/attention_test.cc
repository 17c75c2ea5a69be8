// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <limits>

#include "backend/cpu/cpu_testing.h"

namespace zaya {

namespace {

struct Case {
  Index queries, keys, query_heads, key_heads, channels, window;
  std::vector<AttentionSpan> spans;
  bool hides = false;
};

AttentionArgs make_args(const Backend& backend, TestArena& arena, const Case& c) {
  AttentionArgs args;
  const DType compute = backend.compute();
  args.q = random_tensor(arena, compute, {c.queries, c.query_heads, c.channels}, "q");
  args.k = random_tensor(arena, compute, {c.keys, c.key_heads, c.channels}, "k");
  args.v = random_tensor(arena, compute, {c.keys, c.key_heads, c.channels}, "v");
  args.spans = c.spans;
  args.window = c.window;
  if (!c.hides) return args;
  const Tensor hidden = filled_tensor(arena, DType::u8, {c.keys}, 0);
  for (Index k = 0; k < c.keys; ++k) set_element(hidden, k, k < 3 || k % 5 == 2 ? 1 : 0);
  args.hidden_keys = hidden;
  return args;
}

std::vector<Tensor> run_attention(const Backend& backend, TestArena& arena, const Case& c,
                                  bool is_poisoned = false) {
  const AttentionArgs args = make_args(backend, arena, c);
  const DType compute = backend.compute(), stream = backend.stream();
  const Shape query_shape = args.q.shape(), key_shape = args.k.shape();
  if (is_poisoned) {
    const Tensor k = converted(arena, args.k, compute);
    set_element(k, 5 * c.key_heads * c.channels, std::numeric_limits<double>::quiet_NaN());
    AttentionArgs poisoned = args;
    poisoned.k = k;
    const Tensor out = arena.take(compute, query_shape);
    backend.attention->forward(poisoned, out, arena.take(stream, {c.queries, c.query_heads}));
    return {out};
  }
  const Tensor out = random_tensor(arena, compute, query_shape, "old");
  const Tensor lse = random_tensor(arena, stream, {c.queries, c.query_heads}, "old");
  const Tensor delta = arena.take(stream, {c.queries, c.query_heads});
  const Tensor dout = random_tensor(arena, compute, query_shape, "dout");
  const Tensor dq = random_tensor(arena, compute, query_shape, "old");
  const Tensor dk = random_tensor(arena, compute, key_shape, "old");
  const Tensor dv = random_tensor(arena, compute, key_shape, "old");
  backend.attention->forward(args, out, lse);
  backend.attention->backward(args, out, lse, dout, delta, dq, dk, dv);
  return {out, lse, dq, dk, dv};
}

void compare_case(const Case& c) {
  for (const Numerics numerics : kRunNumerics) {
    compare(numerics, [&](const Backend& backend, TestArena& arena) {
      return run_attention(backend, arena, c);
    });
  }
}

TEST_CASE("attention over one document agrees with its definition at any length") {
  for (const Index n : {1, 3, 7, 16, 17, 31, 33, 100}) {
    CAPTURE(n);
    compare_case({n, n, 4, 2, 16, 0, {{0, n, 0, n}}});
  }
}

TEST_CASE("documents of a row do not see each other, and rows outside all are zero") {
  compare_case({90, 90, 4, 1, 24, 0, {{2, 3, 2, 3}, {3, 40, 3, 40}, {45, 88, 45, 88}}});
}

TEST_CASE("a window bounds how far back a query sees") {
  for (const Index window : {2, 5, 64}) {
    CAPTURE(window);
    compare_case({150, 150, 2, 2, 8, window, {{0, 100, 0, 100}, {100, 150, 100, 150}}});
  }
}

TEST_CASE("hidden keys are not seen, and a query that sees no key gets zeros") {
  compare_case({40, 40, 4, 2, 16, 0, {{0, 40, 0, 40}}, true});
  compare_case({40, 40, 4, 2, 16, 2, {{0, 40, 0, 40}}, true});
}

TEST_CASE("few queries of a decode step see many earlier keys") {
  compare_case({2, 700, 8, 2, 32, 0, {{0, 1, 0, 300}, {1, 2, 310, 650}}});
  compare_case({3, 600, 8, 2, 32, 0, {{0, 3, 10, 600}}});
  compare_case({40, 400, 4, 2, 16, 0, {{0, 40, 0, 390}}});
  // More queries than keys: the first ones see nothing.
  compare_case({30, 30, 4, 2, 16, 0, {{0, 30, 0, 20}}});
}

TEST_CASE("heads of any size and grouping work") {
  compare_case({50, 50, 3, 3, 5, 0, {{0, 50, 0, 50}}});
  compare_case({50, 50, 6, 1, 33, 0, {{0, 50, 0, 50}}});
  compare_case({300, 300, 1, 1, 8, 0, {{0, 300, 0, 300}}});
}

TEST_CASE("documents longer than a chunk of keys sum their gradients in a fixed order") {
  compare_case({1300, 1300, 2, 1, 8, 0, {{0, 1300, 0, 1300}}});
  compare_case({1300, 1300, 2, 1, 8, 200, {{0, 1290, 0, 1290}}});
}

TEST_CASE("a NaN in a key reaches the queries that see it and no others") {
  for (const Numerics numerics : kRunNumerics) {
    for (const Index n : {12, 80}) {
      compare_nans(numerics, [&](const Backend& backend, TestArena& arena) {
        const Case c{n, n, 2, 1, 16, 0, {{0, n, 0, n}}};
        const std::vector<Tensor> results = run_attention(backend, arena, c, true);
        CHECK(std::isnan(element(results[0], (n - 1) * 32).real()));
        return results;
      });
    }
  }
}

TEST_CASE("large scores neither overflow nor vanish") {
  for (const Numerics numerics : kRunNumerics) {
    compare(numerics, [](const Backend& backend, TestArena& arena) {
      const DType compute = backend.compute();
      AttentionArgs args;
      const std::vector<AttentionSpan> spans{{0, 40, 0, 40}};
      args.q = filled_tensor(arena, compute, {40, 1, 16}, 32);
      args.k = random_tensor(arena, compute, {40, 1, 16}, "k", 0.5, 16);
      args.v = random_tensor(arena, compute, {40, 1, 16}, "v");
      args.spans = spans;
      const Tensor out = arena.take(compute, {40, 1, 16});
      const Tensor lse = arena.take(backend.stream(), {40, 1});
      backend.attention->forward(args, out, lse);
      return std::vector{lse};
    });
  }
}

}  // namespace

}  // namespace zaya
