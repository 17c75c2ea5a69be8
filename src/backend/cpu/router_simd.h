// SPDX-License-Identifier: Apache-2.0
//
// Bodies of the router's element-wise parts, all f32.
#pragma once

#include <cstdint>

#include "backend/cpu/rows.h"

namespace zaya {

struct DepthRows {
  const float* prev = nullptr;
  Index prev_stride = 0;
  const float* scale = nullptr;
  Index width = 0;
};

struct ChooseRows {
  ConstRows logits;
  const float* bias = nullptr;
  Index num_classes = 0;
  Rows probs;
  std::int32_t* choice = nullptr;
  float* weight = nullptr;
};

struct ChooseBackward {
  ConstRows probs;
  const std::int32_t* choice = nullptr;
  const float* dweight = nullptr;
  Index num_classes = 0;
  Rows dlogits;
};

struct RouterSimd {
  void (*depth_forward)(const DepthRows& args, Index begin, Index end, Rows h);
  // dscale [width] is overwritten with the part of these rows.
  void (*depth_backward)(const DepthRows& args, Index begin, Index end, ConstRows dh, Rows dprev,
                         float* dscale);
  void (*gelu_forward)(const float* x, Index count, float* y);
  void (*gelu_backward)(const float* x, const float* dy, Index count, float* dx);
  void (*choose_forward)(const ChooseRows& args, Index begin, Index end);
  void (*choose_backward)(const ChooseBackward& args, Index begin, Index end);
};

const RouterSimd& router_simd(InstructionSet set);

}  // namespace zaya
