// SPDX-License-Identifier: Apache-2.0
//
// Bodies of the optimizers' element-wise parts for `count` elements. Values and states are f32.
#pragma once

#include <cstdint>

#include "backend/cpu/rows.h"

namespace zaya {

// Constants of one AdamW step in the form that the kernel uses.
struct AdamWFactors {
  float grad_scale = 1;
  float decay = 0;            // learning rate * weight decay
  float beta1 = 0, new1 = 0;  // new = 1 - beta
  float beta2 = 0, new2 = 0;
  float step = 0;        // learning rate / correction1
  float root_scale = 1;  // 1 / sqrt(correction2)
  float eps = 0;
};

struct AdamWPart {
  float* value = nullptr;
  float* first = nullptr;
  float* second = nullptr;
  const float* grad = nullptr;
  void* copy = nullptr;  // null: none
  bool copy_is_bf16 = false;
};

struct MomentumFactors {
  float scale = 1, mu = 0;
  bool nesterov = false;
};

struct OptimSimd {
  void (*adamw)(const AdamWFactors& factors, const AdamWPart& part, Index count);
  void (*momentum)(const MomentumFactors& factors, const float* grad, Index count, float* buffer,
                   void* out, bool out_is_bf16);
  // value -= decay * value + step * update; copy null: none.
  void (*decayed_add)(float decay, float step, ConstRows update, Index count, float* value,
                      Rows copy);
  double (*sum_squares)(const ConstRows& x, Index count);
};

const OptimSimd& optim_simd(InstructionSet set);

}  // namespace zaya
