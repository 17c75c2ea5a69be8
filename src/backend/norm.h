// SPDX-License-Identifier: Apache-2.0
//
// Root-mean-square normalisation (Zhang and Sennrich 2019), statistics in the stream type.
//
//   y = w * x * inv_rms,   inv_rms = 1 / sqrt(mean(x^2) + eps)      per row
//   dx = inv_rms * (w * dy - n * mean(w * dy * n)),  n = x * inv_rms
//   dw += sum over rows of dy * n
#pragma once

#include "tensor/tensor.h"

namespace zaya {

class NormKernels {
 public:
  virtual ~NormKernels() = default;

  // x [T, D] and w [D] stream type; y [T, D] stream or compute type; inv_rms [T] stream type.
  virtual void rms_forward(ConstTensor x, ConstTensor w, double eps, Tensor y,
                           Tensor inv_rms) noexcept = 0;

  // dy has y's dtype. dx [T, D] stream type, overwritten. dw [D] stream type, added to.
  virtual void rms_backward(ConstTensor x, ConstTensor w, ConstTensor inv_rms, ConstTensor dy,
                            Tensor dx, Tensor dw) noexcept = 0;
};

}  // namespace zaya
