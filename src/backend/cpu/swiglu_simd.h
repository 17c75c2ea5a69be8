// SPDX-License-Identifier: Apache-2.0
//
// Row bodies of SwiGLU, a = silu(gate) * up. Rows are f32, or bf16 as is_bf16 says.
#pragma once

#include "backend/backend.h"

namespace zaya {

struct SwigluSimd {
  // gu [2 * width] = [gate | up]; a [width].
  void (*forward)(const void* gu, Index width, bool is_bf16, void* a);
  // dgu [2 * width] = weight * gradient of gu for da; wa [width] = weight * a. Returns a . da.
  float (*backward)(const void* gu, const void* da, float weight, Index width, bool is_bf16,
                    void* dgu, void* wa);
};

const SwigluSimd& swiglu_simd(InstructionSet set);

}  // namespace zaya
