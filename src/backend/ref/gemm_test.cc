// SPDX-License-Identifier: Apache-2.0
#include "backend/gemm.h"

#include <doctest/doctest.h>

#include "backend/ref/gradient_check.h"

namespace zaya::ref {

using Type = GradientCheck::Type;

TEST_CASE("the gradients of a dense layer agree with complex steps, with and without bias") {
  for (const bool has_bias : {false, true}) {
    for (const Type type : {Type::stream, Type::compute}) {
      GradientCheck check;
      const int x = check.input("x", type, {5, 7});
      const int w = check.parameter("w", type, {4, 7});
      const int y = check.output("y", type, {5, 4});
      const int bias = has_bias ? check.parameter("bias", Type::stream, {4}) : -1;
      check.run(
          [&](GradientRun& r) {
            const ConstTensor b = has_bias ? ConstTensor(r.in[bias]) : ConstTensor{};
            r.backend.gemm->forward(r.in[x], r.in[w], b, r.out[y]);
          },
          [&](GradientRun& r) {
            r.backend.gemm->backward_input(r.dout[y], r.in[w], r.din[x], false);
            r.backend.gemm->backward_weight(r.dout[y], r.in[x], r.din[w],
                                            has_bias ? r.din[bias] : Tensor{});
          });
    }
  }
}

TEST_CASE("products read and write column windows, and mix the stream and compute types") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::bf16);
  const Tensor x = random_tensor(arena, DType::bf16, {3, 10}, "x");
  const Tensor w = random_tensor(arena, DType::bf16, {4, 6}, "w");
  const Tensor y = filled_tensor(arena, DType::f32, {3, 9}, -1);
  backend.gemm->forward(x.column_window(2, 8), w, {}, y.column_window(4, 8));
  for (Index r = 0; r < 3; ++r) {
    CHECK(element(y, r * 9 + 3).real() == -1);
    CHECK(element(y, r * 9 + 8).real() == -1);
    for (Index o = 0; o < 4; ++o) {
      double sum = 0;
      for (Index i = 0; i < 6; ++i) {
        sum += element(x, r * 10 + 2 + i).real() * element(w, o * 6 + i).real();
      }
      CHECK(element(y, r * 9 + 4 + o).real() == doctest::Approx(sum).epsilon(1e-6));
    }
  }
}

TEST_CASE("input gradients overwrite or add as asked") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f64);
  const Tensor dy = random_tensor(arena, DType::f64, {3, 4}, "dy");
  const Tensor w = random_tensor(arena, DType::f64, {4, 5}, "w");
  const Tensor once = filled_tensor(arena, DType::f64, {3, 5}, 9);
  const Tensor added = filled_tensor(arena, DType::f64, {3, 5}, 2);
  backend.gemm->backward_input(dy, w, once, false);
  backend.gemm->backward_input(dy, w, added, true);
  for (Index i = 0; i < once.count(); ++i) {
    CHECK(element(added, i).real() == doctest::Approx(element(once, i).real() + 2));
  }
}

TEST_CASE("the symmetric product is that of x with itself and symmetric bit for bit") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f32);
  const Tensor x = random_tensor(arena, DType::f32, {6, 5}, "x");
  const Tensor c = arena.take(DType::f32, {6, 6}), y = arena.take(DType::f32, {6, 6});
  const Tensor square = arena.take(DType::f32, {6, 6}), wanted = arena.take(DType::f32, {6, 6});
  backend.gemm->symmetric(x, 1, {}, 0, c);
  backend.gemm->forward(x, x, {}, square);
  CHECK(relative_error(c, square) < 1e-7);
  backend.gemm->symmetric(x, 0.5, c, -3, y);
  for (Index i = 0; i < 36; ++i) {
    set_element(wanted, i, 0.5 * element(square, i) - 3.0 * element(c, i));
    CHECK(element(y, i) == element(y, i % 6 * 6 + i / 6));
  }
  CHECK(relative_error(y, wanted) < 1e-6);
}

TEST_CASE("multiply_add is alpha x plus the product") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f64);
  const Tensor p = random_tensor(arena, DType::f64, {4, 4}, "p");
  const Tensor x = random_tensor(arena, DType::f64, {4, 3}, "x");
  const Tensor y = arena.take(DType::f64, {4, 3}), turned = arena.take(DType::f64, {3, 4});
  const Tensor wanted = arena.take(DType::f64, {4, 3});
  backend.gemm->multiply_add(p, x, 0.25, y);
  backend.move->transpose(x, turned);
  backend.gemm->forward(p, turned, {}, wanted);
  backend.move->add(x, 0.25, wanted);
  CHECK(relative_error(y, wanted) < 1e-14);
}

}  // namespace zaya::ref
