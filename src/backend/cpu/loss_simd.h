// SPDX-License-Identifier: Apache-2.0
//
// Row bodies of the cross-entropy.
#pragma once

#include "backend/backend.h"

namespace zaya {

struct LossSimd {
  float (*maximum)(const float* z, Index count);
  // Sum of exp(z - maximum); with `stores` the terms take the place of z.
  double (*sum_exp)(float* z, Index count, float maximum, bool stores);
  // z *= factor, in place as f32, or as bf16 from the start of the row on.
  void (*scale)(float* z, Index count, float factor, bool to_bf16);
};

const LossSimd& loss_simd(InstructionSet set);

}  // namespace zaya
