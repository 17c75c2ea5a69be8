// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/pass.h"

namespace zaya {

// Learned mixing of a half-layer's output into the residual stream.
//
//   forward    y  = (r + b_r) * s_r + (a + b_a) * s_a        per channel
//   backward   dr = dy * s_r     ds_r += sum_t dy * (r + b_r)     db_r += sum_t dy * s_r
//              da = dy * s_a     ds_a += sum_t dy * (a + b_a)     db_a += sum_t dy * s_a
//
// Scales start at one and shifts at zero: a fresh layer is the plain sum r + a.
class ResidualMix {
 public:
  // What backward reads. Both tensors belong to the caller and stay unchanged until then.
  struct Saved {
    ConstTensor r;  // [T, D] stream type: the stream before the half-layer
    ConstTensor a;  // [T, D] compute type: what the half-layer produced
  };

  // Declares residual_scale, residual_bias (s_r, b_r), hidden_states_scale and hidden_states_bias
  // (s_a, b_a), each [width], as AdamW parameters without decay.
  ResidualMix(const ParamScope& scope, Index width);

  // Writes y [T, D], which overlaps neither r nor a.
  void forward(Pass& pass, ConstTensor r, ConstTensor a, Tensor y, Saved& saved) const;

  // `dr` [T, D] holds dy on entry and the gradient of r on return; `da` is overwritten. Token sums
  // have a fixed order and are in f32, so the bits do not depend on the number of threads.
  void backward(Pass& pass, const Saved& saved, Tensor dr, Tensor da) const;

 private:
  MixVectors vectors() const;

  const Param &s_a_, &b_a_, &s_r_, &b_r_;
};

}  // namespace zaya
