// SPDX-License-Identifier: Apache-2.0
//
// Moving, adding and converting whole tensors.
#pragma once

#include "tensor/tensor.h"

namespace zaya {

class MoveKernels {
 public:
  virtual ~MoveKernels() = default;

  virtual void zero(Tensor x) noexcept = 0;
  // Same shape; dtypes may differ (stream, compute); column windows are possible.
  virtual void copy(ConstTensor from, Tensor to) noexcept = 0;
  // to += factor * from; same shape; dtypes may differ; the sum is rounded once.
  virtual void add(ConstTensor from, double factor, Tensor to) noexcept = 0;
  // x *= factor.
  virtual void scale(double factor, Tensor x) noexcept = 0;
  // x[t] = 0 where mask[t] is 1. x [T, D]; mask [T] u8.
  virtual void zero_rows(ConstTensor mask, Tensor x) noexcept = 0;
  // out[i] = x[rows[i]]; rows [n] i32, all valid. x and out of one dtype, equal rank-2 width.
  virtual void gather_rows(ConstTensor x, ConstTensor rows, Tensor out) noexcept = 0;
  // y = x^T; x [n, m], y [m, n]; dtypes may differ.
  virtual void transpose(ConstTensor x, Tensor y) noexcept = 0;
};

}  // namespace zaya
