// SPDX-License-Identifier: Apache-2.0
//
// Rows of elements as element-wise kernels see them, and how their work is cut. Plain data only:
// bodies of SIMD kernels read it too.
#pragma once

#include "backend/backend.h"
#include "base/function_ref.h"

namespace zaya {

struct CpuContext;

// Tokens of one task, and of one part of a sum over tokens.
inline constexpr Index kBlockRows = 64;
// Elements of one task of a kernel that knows no rows.
inline constexpr Index kBlockElements = 32768;

// Rows of f32, or of bf16 as is_bf16 says, `stride` elements apart.
struct ConstRows {
  const void* data = nullptr;
  Index stride = 0;
  bool is_bf16 = false;
};
struct Rows {
  void* data = nullptr;
  Index stride = 0;
  bool is_bf16 = false;
};

// The rows of an f32 or bf16 tensor, seen as [rows, last].
ConstRows rows_of(const ConstTensor& x);
Rows mutable_rows_of(const Tensor& x);

inline Index num_blocks(Index count, Index length) { return (count + length - 1) / length; }

// Calls body(begin, end, worker) for [0, count) in blocks of `length`.
void run_blocks(ThreadPool& pool, Index count, Index length,
                FunctionRef<void(Index begin, Index end, int worker)> body);

// sums[c] += parts[0][c] + parts[1][c] + ... in a fixed order; parts [num_parts, width].
void add_parts(CpuContext& context, const float* parts, Index num_parts, Index width, float* sums);

}  // namespace zaya
