// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/config.h"
#include "model/pass.h"

namespace zaya {

// Compressed convolutional attention (arXiv 2510.04476, in the form of the published ZAYA code).
//
//   [q0 | k0] = x Wq^T, x Wk^T         two convolutions over time, means of q0 and k0 added back,
//   q, k = norm, temperature, rotary   each head scaled to length sqrt(C), keys times temp
//   v = [x Wvc^T | shifted x Wvd^T]    half of the value channels come from the token before
//   a = softmax(q k^T / sqrt(C)) v Wo^T
//
// Convolutions and the shift start afresh at each segment; attention follows the spans.
class Cca {
 public:
  // W = (H + G) * C channels before the convolutions, U = G * C / 2.
  struct Saved {
    ConstTensor x;  // [T, D] compute type, padding rows zeroed; belongs to the caller
    Tensor qk0;     // [T, W] compute type
    Tensor z;       // [T, W] compute type: after the convolutions
    Tensor norm;    // [T, H + G] stream type: head lengths before scaling
    Tensor q;       // [T, H, C] compute type
    Tensor k, v;    // [T, G, C] compute type
    Tensor out;     // [T, H, C] compute type: before the output projection
    Tensor lse;     // [T, H] stream type
  };

  Cca(const ParamScope& scope, const ModelConfig& config, Index layer);

  // rotary [positions, 2, n/2] stream type: cosines and sines of this block's rotary base.
  void bind_rotary(ConstTensor rotary) { rotary_ = rotary; }

  // x [T, D] compute type: padding rows are zeroed in place. a [T, D] compute type is written.
  void forward(Pass& pass, Tensor x, Tensor a, Saved& saved) const;
  // da [T, D] compute type; dx [T, D] compute type is overwritten. dx and da do not overlap.
  void backward(Pass& pass, const Saved& saved, ConstTensor da, Tensor dx) const;

 private:
  ConvolveArgs convolve_args(const Pass& pass, ConstTensor qk0) const;
  QkMixArgs mix_args(const Pass& pass, ConstTensor qk0, ConstTensor z) const;
  // Attention over the keys and values of earlier tokens and these ones; then remembers what the
  // next call needs.
  void attend_cached(Pass& pass, ConstTensor vcd, const Saved& saved) const;
  void remember_columns(Pass& pass, const Saved& saved, ConstTensor vcd) const;

  ModelConfig config_;
  Index layer_;
  ConstTensor rotary_;
  const Param &q_, &k_, &v_current_, &v_delayed_;
  const Param *q_bias_, *k_bias_, *v_current_bias_, *v_delayed_bias_;
  const Param &w0_, &b0_, &w1_, &b1_, &temp_, &o_;
  const Param* o_bias_;
};

}  // namespace zaya
