// SPDX-License-Identifier: Apache-2.0
//
// Matrix products. One convention: y[rows, out] = x[rows, in] * w[out, in]^T, row-major. Operands x
// and w (and dy) have one dtype, compute or stream; sums are in the stream type. All rank-2
// operands may be column windows. Results never overlap operands.
#pragma once

#include "tensor/tensor.h"

namespace zaya {

class GemmKernels {
 public:
  virtual ~GemmKernels() = default;

  // y = x w^T + bias. bias [out] stream type, or no tensor. y: stream or compute type.
  virtual void forward(ConstTensor x, ConstTensor w, ConstTensor bias, Tensor y) noexcept = 0;

  // dx = dy w, or dx += dy w. dx: stream or compute type.
  virtual void backward_input(ConstTensor dy, ConstTensor w, Tensor dx, bool adds) noexcept = 0;

  // dw += dy^T x and, unless dbias is no tensor, dbias += sum over rows of dy. dw and dbias: stream
  // type. The sum over rows is split by shape only.
  virtual void backward_weight(ConstTensor dy, ConstTensor x, Tensor dw, Tensor dbias) noexcept = 0;

  // y = alpha x x^T + beta c with c symmetric (beta = 0: c is no tensor). x [n, m]; c, y [n, n].
  // The upper triangle of tiles is computed once and mirrored, so y is symmetric bit for bit. y has
  // x's dtype, as has c.
  virtual void symmetric(ConstTensor x, double alpha, ConstTensor c, double beta,
                         Tensor y) noexcept = 0;

  // y = alpha x + p x with p [n, n]; x, y [n, m]; all of one dtype.
  virtual void multiply_add(ConstTensor p, ConstTensor x, double alpha, Tensor y) noexcept = 0;
};

}  // namespace zaya
