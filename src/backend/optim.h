// SPDX-License-Identifier: Apache-2.0
//
// Element-wise parts of the optimizers; all tensors contiguous. `value`, `grad` and states are of
// the stream type; `copy` is the compute copy of value (rounded on the way out) or no tensor.
#pragma once

#include "tensor/tensor.h"

namespace zaya {

struct AdamWArgs {
  Tensor value, first_moment, second_moment, copy;
  ConstTensor grad;
  double grad_scale = 1;  // the gradient is multiplied by this first (clipping)
  double learning_rate = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  // 1 - beta1^t and 1 - beta2^t of step t.
  double correction1 = 1, correction2 = 1;
};

class OptimKernels {
 public:
  virtual ~OptimKernels() = default;

  // Decoupled weight decay (Loshchilov and Hutter 2019):
  //   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
  //   value = value (1 - lr wd) - lr (m / c1) / (sqrt(v / c2) + eps)
  virtual void adamw(const AdamWArgs& args) noexcept = 0;

  // buffer = mu buffer + scale grad;  out = buffer, or scale grad + mu buffer with Nesterov. out
  // has the stream or the compute type.
  virtual void momentum(ConstTensor grad, double scale, double mu, bool nesterov, Tensor buffer,
                        Tensor out) noexcept = 0;

  // value = value (1 - lr wd) - step * update; update [same count] of any float dtype.
  virtual void decayed_add(Tensor value, ConstTensor update, double decay, double step,
                           Tensor copy) noexcept = 0;

  // Sum of squares in double over fixed blocks in order; NaN and infinity come through. x has the
  // stream or the compute type.
  virtual double sum_squares(ConstTensor x) noexcept = 0;
};

}  // namespace zaya
