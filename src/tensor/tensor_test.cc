// SPDX-License-Identifier: Apache-2.0
#include "tensor/tensor.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "tensor/arena.h"

namespace zaya {

TEST_CASE("windows of a tensor address the right elements") {
  Arena arena("test", 1 << 16);
  const Tensor x = arena.take(DType::f32, {4, 6});
  const auto all = x.as<float, 2>();
  for (Index i = 0; i < 4; ++i) {
    for (Index j = 0; j < 6; ++j) all[i][j] = static_cast<float>(10 * i + j);
  }
  const auto window = x.column_window(2, 5).as<float, 2>();
  CHECK(window.dim(1) == 3);
  CHECK(window[3][0] == 32);
  CHECK(x.column_window(2, 5).slice(1, 3).as<float, 2>()[1][2] == 24);
  CHECK(x[2].as<float, 1>()[5] == 25);
  CHECK(x.slice(1, 3).as<float, 2>()[0][0] == 10);
  CHECK(x.reshaped({2, 2, 6}).as<float, 3>()[1][1][4] == 34);
  CHECK(x.reshaped({2, 2, 6}).slice(1, 2).as<float, 3>()[0][0][0] == 20);
  const ConstTensor read_only = x;
  CHECK(read_only.as<float, 1>()[7] == 11);
}

TEST_CASE("an arena counts, rewinds and has a dry twin of equal size") {
  Arena real("real", 1 << 16);
  Arena dry = Arena::dry("dry");
  for (Arena* arena : {&real, &dry}) {
    const Arena::Scope scope(*arena, "part");
    static_cast<void>(arena->take(DType::f32, {3}));
    const Rewind rewind(*arena);
    static_cast<void>(arena->take(DType::bf16, {5, 7}));
  }
  CHECK(real.used() == 64);
  CHECK(real.peak() == 64 + 128);
  CHECK(dry.peak() == real.peak());
  CHECK(dry.table() == real.table());
  CHECK(dry.take(DType::f32, {8, 8}).data() == nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(real.take(DType::f32, {1}).data()) % 64 == 0);
}

TEST_CASE("an arena refuses sizes whose bytes leave 64 bits") {
  Arena dry = Arena::dry("dry");
  CHECK_THROWS_AS(static_cast<void>(dry.take(DType::f32, {Index{1} << 31, Index{1} << 31})), Error);
  CHECK(dry.used() == 0);
  static_cast<void>(dry.take(DType::f32, {Index{1} << 60}));
  CHECK_THROWS_AS(static_cast<void>(dry.take(DType::f32, {Index{1} << 60})), Error);
}

}  // namespace zaya
