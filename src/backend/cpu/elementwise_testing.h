// SPDX-License-Identifier: Apache-2.0
//
// What tests of element-wise kernels share beyond cpu_testing.h: row lengths around the vector
// width, and the comparison of all instruction sets in one process.
#pragma once

#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "backend/cpu/context.h"
#include "backend/cpu/cpu_testing.h"

namespace zaya {

// 1, 3, 7, 16, W/2, W-1, W, W+1, 3W and 8W+2 for vectors of W = 16 lanes, and whole rows.
inline constexpr std::array<Index, 10> kLengths = {1, 3, 7, 8, 15, 16, 17, 48, 130, 256};
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The families without library products, on any set that this processor has: unlike the library,
// their set can change within a process.
inline Backend elementwise_backend(Numerics numerics, ThreadPool& pool, InstructionSet library_set,
                                   InstructionSet set) {
  const auto context = std::make_shared<CpuContext>(numerics, pool, library_set);
  context->set = set;
  Backend backend;
  backend.name = std::string(name_of(set));
  backend.numerics = numerics;
  backend.norm = make_cpu_norm(context);
  backend.residual = make_cpu_residual(context);
  backend.cca = make_cpu_cca(context);
  backend.router = make_cpu_router(context);
  backend.optim = make_cpu_optim(context);
  backend.move = make_cpu_move(context);
  return backend;
}

// Compares with the reference, thread counts with each other and instruction sets with each other.
inline void compare_elementwise(Numerics numerics, const KernelRun& run) {
  compare(numerics, run);
  const std::optional<InstructionSet> tested = tested_instruction_set();
  if (!tested) return;
  ThreadPool pool(2);
  TestArena first_arena;
  const std::vector<Tensor> first =
      run(elementwise_backend(numerics, pool, *tested, InstructionSet::portable), first_arena);
  for (const InstructionSet set : {InstructionSet::avx2, InstructionSet::avx512}) {
    if (set > best_instruction_set()) continue;
    CAPTURE(std::string(name_of(set)));
    TestArena arena;
    check_equal_bits(run(elementwise_backend(numerics, pool, *tested, set), arena), first);
  }
}

// [tokens, width] of normal values as a column window that starts off alignment.
inline Tensor random_window(TestArena& arena, DType dtype, Index tokens, Index width,
                            std::string_view name) {
  return random_tensor(arena, dtype, {tokens, width + 5}, name).column_window(3, width + 3);
}

}  // namespace zaya
