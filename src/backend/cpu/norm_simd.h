// SPDX-License-Identifier: Apache-2.0
//
// Bodies of the root-mean-square norm for rows [begin, end).
#pragma once

#include "backend/cpu/rows.h"

namespace zaya {

struct NormForward {
  ConstRows x;  // f32
  const float* w = nullptr;
  double eps = 0;
  Index width = 0;
  Rows y;
  float* inv_rms = nullptr;
};

struct NormBackward {
  ConstRows x;  // f32
  const float* w = nullptr;
  const float* inv_rms = nullptr;
  ConstRows dy;
  Index width = 0;
  Rows dx;  // f32
};

struct NormSimd {
  void (*forward)(const NormForward& args, Index begin, Index end);
  // dw [width] is overwritten with the part of these rows.
  void (*backward)(const NormBackward& args, Index begin, Index end, float* dw);
};

const NormSimd& norm_simd(InstructionSet set);

}  // namespace zaya
