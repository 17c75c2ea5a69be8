// SPDX-License-Identifier: Apache-2.0
#include "backend/move.h"

#include <doctest/doctest.h>

#include "backend/backend.h"
#include "backend/testing.h"

namespace zaya::ref {

TEST_CASE("moves between column windows and dtypes touch nothing else") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::bf16);
  const Tensor from = random_tensor(arena, DType::f32, {3, 6}, "from");
  const Tensor to = filled_tensor(arena, DType::bf16, {3, 4}, 5);
  backend.move->copy(from.column_window(1, 3), to.column_window(2, 4));
  for (Index t = 0; t < 3; ++t) {
    CHECK(element(to, t * 4 + 1).real() == 5);
    const float value = static_cast<float>(element(from, t * 6 + 2).real());
    CHECK(element(to, t * 4 + 3).real() == static_cast<float>(bf16(value)));
  }
  backend.move->zero(to.column_window(0, 1));
  CHECK(element(to, 4).real() == 0);
  CHECK(element(to, 5).real() == 5);
}

TEST_CASE("add rounds the sum once") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::bf16);
  const Tensor to = filled_tensor(arena, DType::bf16, {2}, 1);
  const Tensor from = filled_tensor(arena, DType::f32, {2}, 0.01);
  backend.move->add(from, 0.5, to);
  CHECK(element(to, 0).real() == 1.0078125);  // 1.005 in steps of 2^-7
  backend.move->scale(-2, to);
  CHECK(element(to, 1).real() == -2.015625);
}

TEST_CASE("rows are zeroed by mask and gathered by number") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f32);
  const Tensor x = list_tensor(arena, DType::f32, {1, 2, 3, 4, 5, 6}).reshaped({3, 2});
  const Tensor out = arena.take(DType::f32, {4, 2});
  backend.move->gather_rows(x, list_tensor(arena, DType::i32, {2, 0, 0, 1}), out);
  CHECK(values(out) == std::vector<double>{5, 6, 1, 2, 1, 2, 3, 4});
  backend.move->zero_rows(list_tensor(arena, DType::u8, {0, 1, 0}), x);
  CHECK(values(x) == std::vector<double>{1, 2, 0, 0, 5, 6});
}

TEST_CASE("transpose swaps the dims and may change the dtype") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::bf16);
  const Tensor x = list_tensor(arena, DType::f32, {1, 2, 3, 4, 5, 6}).reshaped({2, 3});
  const Tensor y = arena.take(DType::bf16, {3, 2});
  backend.move->transpose(x, y);
  CHECK(values(y) == std::vector<double>{1, 4, 2, 5, 3, 6});
}

}  // namespace zaya::ref
