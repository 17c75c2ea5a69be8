// SPDX-License-Identifier: Apache-2.0
#include "backend/residual.h"

#include <doctest/doctest.h>

#include "backend/ref/gradient_check.h"

namespace zaya::ref {

using Type = GradientCheck::Type;

TEST_CASE("the gradients of the entry agree with complex steps") {
  GradientCheck check;
  const int table = check.parameter("table", Type::compute, {5, 3});
  const int b = check.parameter("b", Type::stream, {3});
  const int s = check.parameter("s", Type::stream, {3});
  const int x = check.output("x", Type::stream, {6, 3});
  const std::vector<double> tokens = {1, 4, 1, 0, 4, 4};
  check.run(
      [&](GradientRun& r) {
        const Tensor ids = list_tensor(r.arena, DType::i32, tokens);
        r.backend.residual->entry_forward(ids, r.in[table], r.in[b], r.in[s], r.out[x]);
      },
      [&](GradientRun& r) {
        const Tensor ids = list_tensor(r.arena, DType::i32, tokens);
        r.backend.residual->entry_backward(ids, r.in[table], r.in[b], r.in[s], r.dout[x], -1,
                                           r.din[table], r.din[b], r.din[s]);
      });
}

TEST_CASE("lookups of the padding id give its row no gradient") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f64);
  const Tensor ids = list_tensor(arena, DType::i32, {0, 2, 0});
  const Tensor table = random_tensor(arena, DType::f64, {3, 2}, "table");
  const Tensor b = filled_tensor(arena, DType::f64, {2}, 0);
  const Tensor s = filled_tensor(arena, DType::f64, {2}, 1);
  const Tensor dx = filled_tensor(arena, DType::f64, {3, 2}, 1);
  const Tensor dtable = filled_tensor(arena, DType::f64, {3, 2}, 0);
  const Tensor db = filled_tensor(arena, DType::f64, {2}, 0);
  const Tensor ds = filled_tensor(arena, DType::f64, {2}, 0);
  backend.residual->entry_backward(ids, table, b, s, dx, 0, dtable, db, ds);
  CHECK(values(dtable) == std::vector<double>{0, 0, 0, 0, 1, 1});
  CHECK(values(db) == std::vector<double>{3, 3});
}

TEST_CASE("the gradients of the mix agree with complex steps") {
  GradientCheck check;
  const int r_in = check.input("r", Type::stream, {4, 3});
  const int a = check.input("a", Type::compute, {4, 3});
  const int s_r = check.parameter("s_r", Type::stream, {3}, 0.3, 1);
  const int b_r = check.parameter("b_r", Type::stream, {3});
  const int s_a = check.parameter("s_a", Type::stream, {3}, 0.3, 1);
  const int b_a = check.parameter("b_a", Type::stream, {3});
  const int y = check.output("y", Type::stream, {4, 3});
  const auto vectors = [&](GradientRun& r) {
    return MixVectors{r.in[s_r], r.in[b_r], r.in[s_a], r.in[b_a]};
  };
  check.run(
      [&](GradientRun& r) {
        r.backend.residual->mix_forward(r.in[r_in], r.in[a], vectors(r), r.out[y]);
      },
      [&](GradientRun& r) {
        r.backend.move->copy(r.dout[y], r.din[r_in]);
        r.backend.residual->mix_backward(r.in[r_in], r.in[a], vectors(r), r.din[r_in], r.din[a],
                                         {r.din[s_r], r.din[b_r], r.din[s_a], r.din[b_a]});
      });
}

}  // namespace zaya::ref
