// SPDX-License-Identifier: Apache-2.0
//
// The element-wise parts of the router; its products go through GemmKernels. All values are of the
// stream type.
//
//   depth     h += prev * scale                          exponential depth averaging
//   gelu      y = x/2 * (1 + erf(x / sqrt(2)))           exact form
//   choose    p = softmax(logits) over E + 1 classes; choice = argmax(p + bias), lowest index on a
//             tie; weight = p[choice]. Class E is "skip".
#pragma once

#include "tensor/tensor.h"

namespace zaya {

class RouterKernels {
 public:
  virtual ~RouterKernels() = default;

  // prev, h [T, R]; scale [R]. h is added to in place.
  virtual void depth_forward(ConstTensor prev, ConstTensor scale, Tensor h) noexcept = 0;
  // dprev [T, R] overwritten with dh * scale; dscale [R] added to.
  virtual void depth_backward(ConstTensor prev, ConstTensor scale, ConstTensor dh, Tensor dprev,
                              Tensor dscale) noexcept = 0;

  // x, y of equal shape.
  virtual void gelu_forward(ConstTensor x, Tensor y) noexcept = 0;
  // dx may be dy itself.
  virtual void gelu_backward(ConstTensor x, ConstTensor dy, Tensor dx) noexcept = 0;

  // logits, probs [T, E+1]; bias [E+1]; choice [T] i32; weight [T].
  virtual void choose_forward(ConstTensor logits, ConstTensor bias, Tensor probs, Tensor choice,
                              Tensor weight) noexcept = 0;
  // dlogits [T, E+1] overwritten: dweight * p[choice] * (one_hot(choice) - p).
  virtual void choose_backward(ConstTensor probs, ConstTensor choice, ConstTensor dweight,
                               Tensor dlogits) noexcept = 0;
};

}  // namespace zaya
