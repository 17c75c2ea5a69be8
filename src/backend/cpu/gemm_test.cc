// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <limits>

#include "backend/cpu/cpu_testing.h"

namespace zaya {

namespace {

struct Sizes {
  Index rows, in, out;
};

const std::vector<Sizes> kSizes = {{1, 1, 1},     {3, 7, 16},    {7, 16, 3},     {16, 17, 31},
                                   {17, 33, 16},  {31, 100, 33}, {33, 1, 100},   {100, 31, 1},
                                   {16, 96, 129}, {130, 64, 70}, {300, 40, 530}, {1, 500, 40}};

// A window of `columns` columns in a wider tensor.
Tensor window(TestArena& arena, DType dtype, Index rows, Index columns, const std::string& name) {
  return random_tensor(arena, dtype, {rows, columns + 5}, name).column_window(3, columns + 3);
}

TEST_CASE("products of all kinds agree with their definition and do not depend on threads") {
  for (const Numerics numerics : kRunNumerics) {
    for (const Sizes& s : kSizes) {
      CAPTURE(s.rows);
      CAPTURE(s.in);
      CAPTURE(s.out);
      compare(numerics, [&](const Backend& backend, TestArena& arena) {
        const DType compute = backend.compute(), stream = backend.stream();
        const Tensor x = random_tensor(arena, compute, {s.rows, s.in}, "x");
        const Tensor w = random_tensor(arena, compute, {s.out, s.in}, "w");
        const Tensor dy = random_tensor(arena, compute, {s.rows, s.out}, "dy");
        const Tensor bias = random_tensor(arena, stream, {s.out}, "bias");
        const Tensor y = arena.take(compute, {s.rows, s.out});
        const Tensor y_bias = arena.take(compute, {s.rows, s.out});
        const Tensor y_stream = arena.take(stream, {s.rows, s.out});
        const Tensor dx = random_tensor(arena, compute, {s.rows, s.in}, "dx");
        const Tensor dx_added = random_tensor(arena, compute, {s.rows, s.in}, "dx");
        const Tensor dx_stream = random_tensor(arena, stream, {s.rows, s.in}, "dx");
        const Tensor dw = random_tensor(arena, stream, {s.out, s.in}, "dw");
        const Tensor dbias = random_tensor(arena, stream, {s.out}, "dbias");
        backend.gemm->forward(x, w, {}, y);
        backend.gemm->forward(x, w, bias, y_bias);
        backend.gemm->forward(x, w, bias, y_stream);
        backend.gemm->backward_input(dy, w, dx, false);
        backend.gemm->backward_input(dy, w, dx_added, true);
        backend.gemm->backward_input(dy, w, dx_stream, true);
        backend.gemm->backward_weight(dy, x, dw, dbias);
        return std::vector{y, y_bias, y_stream, dx, dx_added, dx_stream, dw, dbias};
      });
    }
  }
}

TEST_CASE("products of column windows write their window only") {
  for (const Numerics numerics : kRunNumerics) {
    for (const Index rows : {5, 40}) {
      compare(numerics, [&](const Backend& backend, TestArena& arena) {
        const DType compute = backend.compute();
        const Tensor x = window(arena, compute, rows, 33, "x");
        const Tensor w = window(arena, compute, 21, 33, "w");
        const Tensor dy = window(arena, compute, rows, 21, "dy");
        const Tensor y = random_tensor(arena, compute, {rows, 30}, "y");
        const Tensor dx = random_tensor(arena, compute, {rows, 50}, "dx");
        const Tensor dw = random_tensor(arena, backend.stream(), {21, 50}, "dw");
        backend.gemm->forward(x, w, {}, y.column_window(4, 25));
        backend.gemm->backward_input(dy, w, dx.column_window(1, 34), true);
        backend.gemm->backward_weight(dy, x, dw.column_window(2, 35), {});
        return std::vector{y, dx, dw};
      });
    }
  }
}

TEST_CASE("symmetric products agree with their definition and are symmetric bit for bit") {
  for (const Numerics numerics : kRunNumerics) {
    for (const Index n : {1, 3, 16, 17, 33, 130, 300}) {
      CAPTURE(n);
      const auto run = [&](const Backend& backend, TestArena& arena) {
        const DType compute = backend.compute();
        const Tensor x = random_tensor(arena, compute, {n, 50}, "x");
        const Tensor y = arena.take(compute, {n, n}), y_c = arena.take(compute, {n, n});
        const Tensor sum = random_tensor(arena, compute, {n, 50}, "sum");
        backend.gemm->symmetric(x, 0.75, {}, 0, y);
        backend.gemm->symmetric(x, -1.5, y, 0.5, y_c);
        backend.gemm->multiply_add(y, x, 1.25, sum);
        return std::vector{y, y_c, sum};
      };
      compare(numerics, run);
      const std::optional<InstructionSet> set = tested_instruction_set();
      if (!set) return;
      TestArena arena;
      ThreadPool pool(2);
      const std::vector<Tensor> results = run(make_cpu_backend(numerics, pool, *set), arena);
      for (int k = 0; k < 2; ++k) {
        for (Index i = 0; i < n; ++i) {
          for (Index j = 0; j < i; ++j)
            CHECK(element(results[k], i * n + j) == element(results[k], j * n + i));
        }
      }
    }
  }
}

TEST_CASE("a NaN reaches exactly the results that depend on it") {
  for (const Numerics numerics : kRunNumerics) {
    for (const Index rows : {4, 40}) {
      compare_nans(numerics, [&](const Backend& backend, TestArena& arena) {
        const DType compute = backend.compute();
        const Tensor x = random_tensor(arena, compute, {rows, 35}, "x");
        const Tensor w = random_tensor(arena, compute, {20, 35}, "w");
        set_element(x, 2 * 35 + 34, std::numeric_limits<double>::quiet_NaN());
        const Tensor y = arena.take(compute, {rows, 20});
        const Tensor dw = filled_tensor(arena, backend.stream(), {20, 35}, 1);
        backend.gemm->forward(x, w, {}, y);
        CHECK(std::isnan(element(y, 2 * 20).real()));
        backend.gemm->backward_weight(random_tensor(arena, compute, {rows, 20}, "dy"), x, dw, {});
        return std::vector{y, dw};
      });
    }
  }
}

TEST_CASE("f32 operands are possible in a bf16 run") {
  compare(Numerics::bf16, [](const Backend& backend, TestArena& arena) {
    const Tensor x = random_tensor(arena, DType::f32, {40, 30}, "x");
    const Tensor w = random_tensor(arena, DType::f32, {20, 30}, "w");
    const Tensor y = arena.take(DType::f32, {40, 20});
    const Tensor dw = filled_tensor(arena, DType::f32, {20, 30}, 0);
    backend.gemm->forward(x, w, {}, y);
    backend.gemm->backward_weight(y, x, dw, {});
    return std::vector{y, dw};
  });
}

}  // namespace

}  // namespace zaya
