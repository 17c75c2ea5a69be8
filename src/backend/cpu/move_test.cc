// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "backend/cpu/elementwise_testing.h"

namespace zaya {

namespace {

// All pairs of a run's dtypes.
std::vector<std::array<DType, 2>> dtype_pairs(const Backend& backend) {
  const DType s = backend.stream(), c = backend.compute();
  if (s == c) return {{s, s}};
  return {{s, s}, {s, c}, {c, s}, {c, c}};
}

std::vector<Tensor> run_moves(const Backend& backend, TestArena& arena, Index rows, Index width,
                              bool is_window) {
  std::vector<Tensor> results;
  const auto take = [&](DType dtype, std::string_view name) {
    return is_window ? random_window(arena, dtype, rows, width, name)
                     : random_tensor(arena, dtype, {rows, width}, name);
  };
  for (const auto& [from, to] : dtype_pairs(backend)) {
    const Tensor x = take(from, "x");
    const Tensor copied = take(to, "copied"), sum = take(to, "sum"), scaled = take(to, "scaled");
    const Tensor zeroed = take(to, "zeroed"), turned = arena.take(to, {width, rows});
    backend.move->copy(x, copied);
    backend.move->add(x, -0.75, sum);
    backend.move->scale(0.3, scaled);
    backend.move->zero(zeroed);
    backend.move->transpose(x, turned);
    results.insert(results.end(), {copied, sum, scaled, zeroed, turned});
  }
  return results;
}

TEST_CASE("moving, adding and converting agree with their definitions for every length of row") {
  for (const Numerics numerics : kRunNumerics) {
    for (const Index width : kLengths) {
      CAPTURE(width);
      for (const Index rows : {1, 19, 133}) {
        for (const bool is_window : {false, true}) {
          compare_elementwise(numerics, [&](const Backend& backend, TestArena& arena) {
            return run_moves(backend, arena, rows, width, is_window);
          });
        }
      }
    }
  }
}

TEST_CASE("rows are zeroed by mask and gathered by number") {
  for (const Numerics numerics : kRunNumerics) {
    for (const Index width : kLengths) {
      CAPTURE(width);
      compare_elementwise(numerics, [&](const Backend& backend, TestArena& arena) {
        constexpr Index kRows = 100;
        const Tensor x = random_tensor(arena, backend.compute(), {kRows, width}, "x");
        const Tensor mask = arena.take(DType::u8, {kRows}), rows = arena.take(DType::i32, {170});
        for (Index i = 0; i < kRows; ++i) set_element(mask, i, i % 3 == 1 ? 1 : 0);
        for (Index i = 0; i < 170; ++i) set_element(rows, i, static_cast<double>(i * 37 % kRows));
        backend.move->zero_rows(mask, x);
        const Tensor out = arena.take(backend.compute(), {170, width});
        backend.move->gather_rows(x, rows, out);
        return std::vector{x, out};
      });
    }
  }
}

TEST_CASE("zero and copy take tensors of any type and more than two dims") {
  compare_elementwise(Numerics::f32, [](const Backend& backend, TestArena& arena) {
    const Tensor ids = list_tensor(arena, DType::i32, {1, -2, 3});
    const Tensor copied = arena.take(DType::i32, {3});
    backend.move->copy(ids, copied);
    backend.move->zero(ids);
    const Tensor cube = random_tensor(arena, DType::f32, {3, 5, 7}, "cube");
    const Tensor sum = random_tensor(arena, DType::f32, {3, 5, 7}, "sum");
    backend.move->add(cube, 2, sum);
    const Tensor nothing = arena.take(DType::f32, {0, 4});
    backend.move->zero(nothing);
    return std::vector{ids, copied, sum};
  });
}

TEST_CASE("every f32 becomes the bf16 of base/bf16.h, denormals, ties and NaN included") {
  const std::optional<InstructionSet> set = tested_instruction_set();
  if (!set) return;
  constexpr Index kCount = 1 << 16;
  TestArena arena;
  const Tensor x = arena.take(DType::f32, {kCount}), y = arena.take(DType::bf16, {kCount});
  const auto bits = reinterpret_cast<std::uint32_t*>(x.data());
  // Each upper half with a lower half at, just below or just above a tie.
  constexpr std::array<std::uint32_t, 5> kLow = {0x8000, 0x7fff, 0x8001, 0, 0xffff};
  ThreadPool pool(1);
  for (std::size_t k = 0; k < kLow.size(); ++k) {
    for (Index i = 0; i < kCount; ++i) bits[i] = static_cast<std::uint32_t>(i) << 16 | kLow[k];
    for (const InstructionSet s :
         {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512}) {
      if (s > best_instruction_set()) continue;
      elementwise_backend(Numerics::bf16, pool, *set, s).move->copy(x, y);
      Index wrong = 0;
      for (Index i = 0; i < kCount; ++i) {
        wrong += bf16(x.as<float, 1>()[i]).bits != y.as<bf16, 1>()[i].bits ? 1 : 0;
      }
      CAPTURE(std::string(name_of(s)));
      CHECK(wrong == 0);
    }
  }
}

}  // namespace

}  // namespace zaya
