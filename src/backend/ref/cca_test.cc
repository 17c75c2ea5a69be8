// SPDX-License-Identifier: Apache-2.0
#include "backend/cca.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>

#include "backend/ref/gradient_check.h"

namespace zaya::ref {

using Type = GradientCheck::Type;

namespace {

constexpr Index kTokens = 8;
// One long segment, one shorter than the convolutions, one token alone.
const std::vector<Segment> kSegments = {{0, 5}, {5, 7}, {7, 8}};

struct CcaShape {
  Index k0, k1, query_heads, key_heads, channels, turning;
};

// The convolutions and the mix together, as attention uses them.
void check_prologue(const CcaShape& shape) {
  const Index heads = shape.query_heads + shape.key_heads, width = heads * shape.channels;
  GradientCheck check;
  const int qk0 = check.input("qk0", Type::compute, {kTokens, width});
  const int w0 = check.parameter("w0", Type::stream, {width, 1, shape.k0});
  const int b0 = check.parameter("b0", Type::stream, {width});
  const int w1 = check.parameter("w1", Type::compute, {width, shape.channels, shape.k1}, 0.5);
  const int b1 = check.parameter("b1", Type::stream, {width});
  const int temp = check.parameter("temp", Type::stream, {shape.key_heads});
  const int rotary = check.constant("rotary", Type::stream, {9, 2, shape.turning / 2});
  const int q = check.output("q", Type::compute, {kTokens, shape.query_heads, shape.channels});
  const int k = check.output("k", Type::compute, {kTokens, shape.key_heads, shape.channels});
  const auto convolve_args = [&](GradientRun& r) {
    ConvolveArgs args{heads, r.in[qk0], {}, r.in[w0], r.in[b0], r.in[w1], r.in[b1], kSegments};
    return args;
  };
  const auto mix_args = [&](GradientRun& r, Tensor z) {
    const Tensor positions = list_tensor(r.arena, DType::i32, {0, 1, 2, 3, 4, 0, 1, 8});
    return QkMixArgs{shape.query_heads, shape.key_heads, z,           r.in[qk0],
                     r.in[temp],        positions,       r.in[rotary]};
  };
  check.run(
      [&](GradientRun& r) {
        r.saved = {r.take_compute({kTokens, width}), r.take_stream({kTokens, heads})};
        r.backend.cca->convolve_forward(convolve_args(r), r.saved[0]);
        r.backend.cca->mix_forward(mix_args(r, r.saved[0]), r.out[q], r.out[k], r.saved[1]);
      },
      [&](GradientRun& r) {
        const Tensor dz = r.take_compute({kTokens, width});
        r.backend.cca->mix_backward(mix_args(r, r.saved[0]), r.saved[1], r.dout[q], r.dout[k], dz,
                                    r.din[qk0], r.din[temp]);
        r.backend.cca->convolve_backward(convolve_args(r), dz, r.din[qk0],
                                         {r.din[w0], r.din[b0], r.din[w1], r.din[b1]});
      },
      0.06);
}

}  // namespace

TEST_CASE("the gradients of convolutions and mix agree with complex steps for all kernel sizes") {
  const std::vector<CcaShape> shapes = {{1, 1, 2, 2, 4, 4}, {2, 2, 4, 2, 4, 2}, {3, 1, 2, 1, 3, 2},
                                        {1, 4, 3, 1, 2, 0}, {4, 3, 3, 3, 2, 2}, {2, 3, 4, 1, 6, 4}};
  for (const CcaShape& shape : shapes) {
    INFO(fmt::format("k0 {} k1 {} heads {} {}", shape.k0, shape.k1, shape.query_heads,
                     shape.key_heads));
    check_prologue(shape);
  }
}

TEST_CASE("before a segment the first convolution gives its bias, not zero") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f64);
  const std::vector<Segment> segments = {{0, 2}, {2, 3}};
  ConvolveArgs args;
  args.heads = 1;
  args.qk0 = list_tensor(arena, DType::f64, {1, 10, 100}).reshaped({3, 1});
  args.w0 = list_tensor(arena, DType::f64, {2, 3}).reshaped({1, 1, 2});
  args.b0 = list_tensor(arena, DType::f64, {0.5});
  args.w1 = list_tensor(arena, DType::f64, {7, 1}).reshaped({1, 1, 2});
  args.b1 = list_tensor(arena, DType::f64, {0.25});
  args.segments = segments;
  const Tensor z = arena.take(DType::f64, {3, 1});
  backend.cca->convolve_forward(args, z);
  // u = 3.5, 32.5 and, in the second segment, 300.5.
  CHECK(values(z) ==
        std::vector<double>{0.25 + 7 * 0.5 + 3.5, 0.25 + 7 * 3.5 + 32.5, 0.25 + 7 * 0.5 + 300.5});
}

TEST_CASE("convolutions continued from their history equal those of the whole segment") {
  const Backend backend = make_ref_backend(Numerics::f64);
  for (const Index k0 : {1, 2, 4}) {
    for (const Index k1 : {1, 3}) {
      TestArena arena;
      const Index depth = k0 + k1 - 2, tokens = 9;
      ConvolveArgs args;
      args.heads = 2;
      const Tensor qk0 = random_tensor(arena, DType::f64, {tokens, 6}, "qk0");
      args.w0 = random_tensor(arena, DType::f64, {6, 1, k0}, "w0");
      args.b0 = random_tensor(arena, DType::f64, {6}, "b0");
      args.w1 = random_tensor(arena, DType::f64, {6, 3, k1}, "w1");
      args.b1 = random_tensor(arena, DType::f64, {6}, "b1");
      const Tensor whole = arena.take(DType::f64, {tokens, 6});
      const std::vector<Segment> one = {{0, tokens}};
      args.qk0 = qk0;
      args.segments = one;
      backend.cca->convolve_forward(args, whole);

      // Tokens 6 to 8 are new; row 1 of the state has what came before.
      const Tensor history = filled_tensor(arena, DType::f64, {2, depth, 6}, 1e3);
      for (Index i = 0; i < depth * 6; ++i) {
        set_element(history, depth * 6 + i, element(qk0, (6 - depth) * 6 + i));
      }
      const Tensor part = arena.take(DType::f64, {3, 6});
      const std::vector<Segment> continued = {{0, 3, 1}};
      args.qk0 = qk0.slice(6, 9);
      args.history = history;
      args.segments = continued;
      backend.cca->convolve_forward(args, part);
      CHECK(equal_bits(part, whole.slice(6, 9)));
    }
  }
}

TEST_CASE("the mix adds the means, normalises, and scales keys by their temperature") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f64);
  QkMixArgs args;
  args.query_heads = 2;
  args.key_heads = 1;
  args.z = filled_tensor(arena, DType::f64, {1, 6}, 0);
  args.qk0 = list_tensor(arena, DType::f64, {1, 0, 3, 0, 5, 2}).reshaped({1, 6});
  args.temp = list_tensor(arena, DType::f64, {-2});
  args.positions = list_tensor(arena, DType::i32, {0});
  args.rotary = arena.take(DType::f64, {1, 2, 0});
  const Tensor q = arena.take(DType::f64, {1, 2, 2}), k = arena.take(DType::f64, {1, 1, 2});
  const Tensor norm = arena.take(DType::f64, {1, 3});
  backend.cca->mix_forward(args, q, k, norm);
  // m = (3, 1) and (4, 1); their mean is (3.5, 1).
  const double lengths[] = {std::sqrt(10.0), std::sqrt(17.0), std::sqrt(13.25)};
  for (Index h = 0; h < 3; ++h) CHECK(element(norm, h).real() == doctest::Approx(lengths[h]));
  CHECK(element(q, 0).real() == doctest::Approx(3 * std::sqrt(2.0) / lengths[0]));
  CHECK(element(q, 3).real() == doctest::Approx(std::sqrt(2.0) / lengths[1]));
  CHECK(element(k, 0).real() == doctest::Approx(-2 * 3.5 * std::sqrt(2.0) / lengths[2]));
}

TEST_CASE("a head of zeros stays zero and gets finite gradients") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f32);
  const Tensor zeros = filled_tensor(arena, DType::f32, {1, 4}, 0);
  const QkMixArgs args{1,
                       1,
                       zeros,
                       zeros,
                       filled_tensor(arena, DType::f32, {1}, 1),
                       list_tensor(arena, DType::i32, {0}),
                       arena.take(DType::f32, {1, 2, 0})};
  const Tensor q = arena.take(DType::f32, {1, 1, 2}), k = arena.take(DType::f32, {1, 1, 2});
  const Tensor norm = arena.take(DType::f32, {1, 2}), dtemp = arena.take(DType::f32, {1});
  const Tensor dz = arena.take(DType::f32, {1, 4}), dqk0 = arena.take(DType::f32, {1, 4});
  backend.cca->mix_forward(args, q, k, norm);
  CHECK(values(k) == std::vector<double>{0, 0});
  fill(q, 1e-7);
  fill(dtemp, 0);
  backend.cca->mix_backward(args, norm, q, k, dz, dqk0, dtemp);
  const double slope = std::sqrt(2.0) / 0x1p-23;
  CHECK(element(dz, 0).real() == doctest::Approx(1e-7 * slope).epsilon(1e-6));
  CHECK(element(dz, 2).real() == 0);
}

TEST_CASE("the rotary embedding turns half-split pairs of the first channels") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f64);
  const double angle = 0.3;
  QkMixArgs args;
  args.query_heads = args.key_heads = 1;
  args.z = list_tensor(arena, DType::f64, {1, 2, 3, 4, 5, 1, 1, 1, 1, 1}).reshaped({1, 10});
  args.qk0 = filled_tensor(arena, DType::f64, {1, 10}, 0);
  args.temp = filled_tensor(arena, DType::f64, {1}, 1);
  args.positions = list_tensor(arena, DType::i32, {1});
  args.rotary = list_tensor(arena, DType::f64, {1, 1, 0, 0, std::cos(angle), 1, std::sin(angle), 0})
                    .reshaped({2, 2, 2});
  const Tensor q = arena.take(DType::f64, {1, 1, 5}), k = arena.take(DType::f64, {1, 1, 5});
  backend.cca->mix_forward(args, q, k, arena.take(DType::f64, {1, 2}));
  const double factor = std::sqrt(5.0 / 55.0);
  CHECK(element(q, 0).real() == doctest::Approx(factor * (std::cos(angle) - 3 * std::sin(angle))));
  CHECK(element(q, 1).real() == doctest::Approx(factor * 2));
  CHECK(element(q, 2).real() == doctest::Approx(factor * (3 * std::cos(angle) + std::sin(angle))));
  CHECK(element(q, 4).real() == doctest::Approx(factor * 5));
}

TEST_CASE("the gradients of the values agree with complex steps, with and without bias") {
  for (const bool has_bias : {false, true}) {
    GradientCheck check;
    // Three key heads of two channels: the middle head is half current, half delayed.
    const int vcd = check.input("vcd", Type::compute, {kTokens, 6});
    const int bias = has_bias ? check.parameter("bias", Type::stream, {3}) : -1;
    const int v = check.output("v", Type::compute, {kTokens, 6});
    check.run(
        [&](GradientRun& r) {
          const ConstTensor b = has_bias ? ConstTensor(r.in[bias]) : ConstTensor{};
          r.backend.cca->values_forward(r.in[vcd], b, {}, kSegments, r.out[v]);
        },
        [&](GradientRun& r) {
          r.backend.cca->values_backward(r.dout[v], kSegments, r.din[vcd],
                                         has_bias ? r.din[bias] : Tensor{});
        });
  }
}

TEST_CASE("delayed values come from the token before, from the history, or from the bias") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f32);
  const Tensor vcd = list_tensor(arena, DType::f32, {1, 10, 2, 20, 3, 30}).reshaped({3, 2});
  const Tensor bias = list_tensor(arena, DType::f32, {-1});
  const Tensor history = list_tensor(arena, DType::f32, {7, 8}).reshaped({2, 1});
  const Tensor v = arena.take(DType::f32, {3, 2});
  const std::vector<Segment> segments = {{0, 2, -1}, {2, 3, 1}};
  backend.cca->values_forward(vcd, bias, history, segments, v);
  CHECK(values(v) == std::vector<double>{1, -1, 2, 10, 3, 8});
}

}  // namespace zaya::ref
