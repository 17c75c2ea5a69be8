// SPDX-License-Identifier: Apache-2.0
#include "backend/attention.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "backend/ref/gradient_check.h"

namespace zaya::ref {

using Type = GradientCheck::Type;

namespace {

struct AttentionCase {
  std::string name;
  Index queries, keys, heads, key_heads, channels, window;
  std::vector<AttentionSpan> spans;
  std::vector<double> hidden;
};

const std::vector<AttentionCase> kCases = {
    {"two segments", 7, 7, 4, 2, 3, 0, {{0, 4, 0, 4}, {4, 7, 4, 7}}, {}},
    {"window", 8, 8, 2, 2, 4, 3, {{0, 8, 0, 8}}, {}},
    {"hidden keys", 6, 6, 2, 1, 2, 0, {{0, 6, 0, 6}}, {1, 1, 0, 0, 1, 0}},
    {"hidden keys and window", 6, 6, 3, 1, 2, 2, {{0, 6, 0, 6}}, {0, 0, 1, 1, 0, 0}},
    {"decode", 3, 12, 2, 1, 4, 0, {{0, 1, 0, 5}, {1, 3, 6, 11}}, {}},
    {"decode with window", 3, 12, 2, 1, 4, 4, {{0, 1, 0, 5}, {1, 3, 6, 11}}, {}},
    {"more queries than keys", 5, 3, 2, 2, 2, 0, {{0, 5, 0, 3}}, {}},
};

AttentionArgs args_of(const AttentionCase& c, TestArena& arena, Tensor q, Tensor k, Tensor v) {
  AttentionArgs args{q, k, v, c.spans, c.window, {}};
  if (!c.hidden.empty()) args.hidden_keys = list_tensor(arena, DType::u8, c.hidden);
  return args;
}

// May query i see key j? Straight from the words of the contract.
bool sees(const AttentionCase& c, Index i, Index j) {
  for (const AttentionSpan& span : c.spans) {
    if (i < span.q_begin || i >= span.q_end || j < span.k_begin) continue;
    const Index last = span.k_end - 1 - (span.q_end - 1 - i);
    const bool is_hidden = !c.hidden.empty() && c.hidden[j] != 0;
    return j <= last && (c.window == 0 || j > last - c.window) && !is_hidden;
  }
  return false;
}

}  // namespace

TEST_CASE("the gradients of attention agree with complex steps") {
  for (const AttentionCase& c : kCases) {
    INFO(c.name);
    GradientCheck check;
    const int q = check.input("q", Type::compute, {c.queries, c.heads, c.channels});
    const int k = check.input("k", Type::compute, {c.keys, c.key_heads, c.channels});
    const int v = check.input("v", Type::compute, {c.keys, c.key_heads, c.channels});
    const int out = check.output("out", Type::compute, {c.queries, c.heads, c.channels});
    check.run(
        [&](GradientRun& r) {
          r.saved = {r.take_stream({c.queries, c.heads})};
          r.backend.attention->forward(args_of(c, r.arena, r.in[q], r.in[k], r.in[v]), r.out[out],
                                       r.saved[0]);
        },
        [&](GradientRun& r) {
          const Tensor delta = r.take_stream({c.queries, c.heads});
          r.backend.attention->backward(args_of(c, r.arena, r.in[q], r.in[k], r.in[v]), r.out[out],
                                        r.saved[0], r.dout[out], delta, r.din[q], r.din[k],
                                        r.din[v]);
        });
  }
}

TEST_CASE("attention is the softmax over the keys that the spans let a query see") {
  const Backend backend = make_ref_backend(Numerics::f64);
  for (const AttentionCase& c : kCases) {
    INFO(c.name);
    TestArena arena;
    const Tensor q = random_tensor(arena, DType::f64, {c.queries, c.heads, c.channels}, "q");
    const Tensor k = random_tensor(arena, DType::f64, {c.keys, c.key_heads, c.channels}, "k");
    const Tensor v = random_tensor(arena, DType::f64, {c.keys, c.key_heads, c.channels}, "v");
    const Tensor out = filled_tensor(arena, DType::f64, q.shape(), 5);
    const Tensor lse = filled_tensor(arena, DType::f64, {c.queries, c.heads}, 5);
    backend.attention->forward(args_of(c, arena, q, k, v), out, lse);
    for (Index i = 0; i < c.queries; ++i) {
      for (Index h = 0; h < c.heads; ++h) {
        const Index g = h * c.key_heads / c.heads, row = (i * c.heads + h) * c.channels;
        double sum = 0;
        std::vector<double> wanted(c.channels);
        for (Index j = 0; j < c.keys; ++j) {
          if (!sees(c, i, j)) continue;
          const Index key = (j * c.key_heads + g) * c.channels;
          double score = 0;
          for (Index n = 0; n < c.channels; ++n) {
            score += element(q, row + n).real() * element(k, key + n).real();
          }
          const double p = std::exp(score / std::sqrt(static_cast<double>(c.channels)));
          sum += p;
          for (Index n = 0; n < c.channels; ++n) wanted[n] += p * element(v, key + n).real();
        }
        const double norm = sum == 0 ? 1 : sum;
        CHECK(element(lse, i * c.heads + h).real() == doctest::Approx(std::log(norm)));
        for (Index n = 0; n < c.channels; ++n) {
          CHECK(element(out, row + n).real() == doctest::Approx(wanted[n] / norm));
        }
      }
    }
  }
}

TEST_CASE("outputs and gradients outside all spans are zero") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f32);
  const Tensor x = random_tensor(arena, DType::f32, {3, 1, 2}, "x");
  const std::vector<AttentionSpan> spans = {{1, 2, 1, 2}};
  const AttentionArgs args{x, x, x, spans, 0, {}};
  const Tensor out = filled_tensor(arena, DType::f32, {3, 1, 2}, 5);
  const Tensor lse = filled_tensor(arena, DType::f32, {3, 1}, 5),
               delta = converted(arena, lse, DType::f32);
  const Tensor dq = converted(arena, out, DType::f32), dk = converted(arena, out, DType::f32);
  const Tensor dv = converted(arena, out, DType::f32);
  backend.attention->forward(args, out, lse);
  backend.attention->backward(args, out, lse, x, delta, dq, dk, dv);
  CHECK(equal_bits(out[1], x[1]));
  for (const Tensor& y : {out, dq, dk, dv}) {
    for (const Index i : {0, 1, 4, 5}) CHECK(element(y, i).real() == 0);
  }
  CHECK(equal_bits(dv[1], x[1]));
  CHECK(element(lse, 0).real() == 0);
}

}  // namespace zaya::ref
