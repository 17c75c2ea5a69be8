// SPDX-License-Identifier: Apache-2.0
//
// The prologue of compressed convolutional attention (arXiv 2510.04476; exact form: the published
// ZAYA code). N = H + G heads of C channels; qk0 = [q0 | k0], W = N * C columns.
//
//   convolve   u[t, c] = b0[c] + sum_{j<k0} w0[c, j] * qk0[t - (k0-1) + j, c]        depthwise
//              z[t, n, o] = b1[n, o] + sum_{j<k1} sum_i w1[n*C+o, i, j] * u[t - (k1-1) + j, n, i]
//              Before a segment qk0 is zero, hence u = b0 there (not zero).
//   mix        m[h] = (q0[h] + k0[g]) / 2 for query head h of key head g = h / (H/G)
//              q[h] = z[h] + m[h];   k[g] = z[H + g] + mean over the heads h of g of m[h]
//              n = sqrt(C) / max(|.|_2, eps);   q *= n;   k *= n * temp[g]
//              then the rotary embedding on the first channels of each head (half-split pairs)
//   values     v[t] = [vc[t] | vd[t-1]] by channel; before a segment vd is bias_d (or zero)
#pragma once

#include <span>

#include "backend/batch.h"
#include "tensor/tensor.h"

namespace zaya {

struct ConvolveArgs {
  Index heads = 0;      // N = H + G
  ConstTensor qk0;      // [T, W] compute type
  ConstTensor history;  // [rows, k0 + k1 - 2, W] compute type: earlier columns, or no tensor
  ConstTensor w0, b0;   // [W, 1, k0], [W] stream type
  ConstTensor w1;       // [W, C, k1] compute type
  ConstTensor b1;       // [W] stream type
  std::span<const Segment> segments;
};

struct ConvolveGradients {
  Tensor w0, b0, w1, b1;  // shapes of the weights, stream type, added to
};

struct QkMixArgs {
  Index query_heads = 0, key_heads = 0;
  ConstTensor z, qk0;     // [T, W] compute type
  ConstTensor temp;       // [G] stream type
  ConstTensor positions;  // [T] i32
  // [positions, 2, n/2] stream type: cosines, then sines; n channels of each head turn.
  ConstTensor rotary;
};

class CcaKernels {
 public:
  virtual ~CcaKernels() = default;

  // z [T, W] compute type.
  virtual void convolve_forward(const ConvolveArgs& args, Tensor z) noexcept = 0;

  // dz [T, W] compute type. dqk0 [T, W] compute type is added to. Only without history.
  virtual void convolve_backward(const ConvolveArgs& args, ConstTensor dz, Tensor dqk0,
                                 const ConvolveGradients& d) noexcept = 0;

  // q [T, H, C], k [T, G, C] compute type; norm [T, N] stream type: |.|_2 of each head before
  // scaling (not clamped).
  virtual void mix_forward(const QkMixArgs& args, Tensor q, Tensor k, Tensor norm) noexcept = 0;

  // dq, dk compute type. dz and dqk0 [T, W] compute type, overwritten (dqk0 with the part through
  // the means). dtemp [G] stream type, added to.
  virtual void mix_backward(const QkMixArgs& args, ConstTensor norm, ConstTensor dq, ConstTensor dk,
                            Tensor dz, Tensor dqk0, Tensor dtemp) noexcept = 0;

  // vcd [T, 2U] = [vc | vd] compute type; bias_d [U] stream type or no tensor: vd of a zero input;
  // history [rows, U] compute type or no tensor: vd of the token before a segment with history.
  // v [T, 2U] compute type.
  virtual void values_forward(ConstTensor vcd, ConstTensor bias_d, ConstTensor history,
                              std::span<const Segment> segments, Tensor v) noexcept = 0;

  // dvcd [T, 2U] compute type, overwritten. dbias_d [U] (or no tensor) is added to with what the
  // first tokens of segments owe it.
  virtual void values_backward(ConstTensor dv, std::span<const Segment> segments, Tensor dvcd,
                               Tensor dbias_d) noexcept = 0;
};

}  // namespace zaya
