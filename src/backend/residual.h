// SPDX-License-Identifier: Apache-2.0
//
// Entry of tokens into the residual stream, and learned mixing of half-layer outputs into it
// (residual scaling, ZAYA1-8B report eq. 6 in the form of the published code: bias before scale, on
// both sides of the sum).
//
//   entry   x = (table[id] + b) * s
//   mix     y = (r + b_r) * s_r + (a + b_a) * s_a
#pragma once

#include "tensor/tensor.h"

namespace zaya {

// The four vectors of a mix, each [D], stream type.
struct MixVectors {
  ConstTensor s_r, b_r, s_a, b_a;
};
struct MixGradients {
  Tensor s_r, b_r, s_a, b_a;
};

class ResidualKernels {
 public:
  virtual ~ResidualKernels() = default;

  // ids [T] i32; table [V, D] compute type; b, s [D]; x [T, D] stream type.
  virtual void entry_forward(ConstTensor ids, ConstTensor table, ConstTensor b, ConstTensor s,
                             Tensor x) noexcept = 0;

  // dtable [V, D], db, ds [D] stream type, added to, in the order of tokens. The row of `pad_id`
  // (-1: none) gets no gradient from lookups.
  virtual void entry_backward(ConstTensor ids, ConstTensor table, ConstTensor b, ConstTensor s,
                              ConstTensor dx, Index pad_id, Tensor dtable, Tensor db,
                              Tensor ds) noexcept = 0;

  // r, y [T, D] stream type; a [T, D] compute type. y overlaps neither.
  virtual void mix_forward(ConstTensor r, ConstTensor a, const MixVectors& p,
                           Tensor y) noexcept = 0;

  // dr [T, D] holds dy on entry and the gradient of r on return. da [T, D] compute type,
  // overwritten. Vector gradients are added to; sums over tokens have a fixed order.
  virtual void mix_backward(ConstTensor r, ConstTensor a, const MixVectors& p, Tensor dr, Tensor da,
                            const MixGradients& d) noexcept = 0;
};

}  // namespace zaya
