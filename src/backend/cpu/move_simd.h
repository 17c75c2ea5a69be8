// SPDX-License-Identifier: Apache-2.0
//
// Bodies of moving, adding and converting.
#pragma once

#include "backend/cpu/rows.h"

namespace zaya {

// Rows of x that transpose() takes at most: whole cache lines of y.
inline constexpr Index kTransposeRows = 64;

struct MoveSimd {
  // One row of `count` elements each; strides are not looked at.
  void (*convert)(ConstRows from, Index count, Rows to);
  void (*add)(ConstRows from, float factor, Index count, Rows to);
  void (*scale)(float factor, Index count, Rows x);
  // y[:, 0 .. rows) = x^T for x [rows, columns], at most kTransposeRows rows.
  void (*transpose)(ConstRows x, Index rows, Index columns, Rows y);
};

const MoveSimd& move_simd(InstructionSet set);

}  // namespace zaya
