// SPDX-License-Identifier: Apache-2.0
//
// Bodies of entry and residual mixing. The stream is f32, vectors are [width].
#pragma once

#include <cstdint>

#include "backend/cpu/rows.h"

namespace zaya {

// Columns that one task of entry_backward owns, at most.
inline constexpr Index kEntryColumns = 128;

struct EntryRows {
  const std::int32_t* ids = nullptr;
  ConstRows table;
  const float* b = nullptr;
  const float* s = nullptr;
  Index width = 0;
};

// Everything starts at the first of at most kEntryColumns columns.
struct EntryBackward {
  EntryRows entry;
  const float* dx = nullptr;
  Index dx_stride = 0, num_tokens = 0, pad_id = -1;
  float* dtable = nullptr;
  Index dtable_stride = 0;
  float* db = nullptr;
  float* ds = nullptr;
};

struct MixRows {
  ConstRows r, a;
  const float* s_r = nullptr;
  const float* b_r = nullptr;
  const float* s_a = nullptr;
  const float* b_a = nullptr;
  Index width = 0;
};

// Gradients of the four vectors.
struct MixSums {
  float* s_r = nullptr;
  float* b_r = nullptr;
  float* s_a = nullptr;
  float* b_a = nullptr;
};

struct ResidualSimd {
  void (*entry_forward)(const EntryRows& args, Index begin, Index end, Rows x);
  void (*entry_backward)(const EntryBackward& args);
  void (*mix_forward)(const MixRows& args, Index begin, Index end, Rows y);
  // sums [3, width] is overwritten with the sums of g, g r and g a over these rows, where g is dr
  // on entry.
  void (*mix_backward)(const MixRows& args, Index begin, Index end, Rows dr, Rows da, float* sums);
  // Adds the gradients that follow from such sums over all rows.
  void (*mix_gradients)(const MixRows& args, const float* sums, const MixSums& d);
};

const ResidualSimd& residual_simd(InstructionSet set);

}  // namespace zaya
