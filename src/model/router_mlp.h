// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/config.h"
#include "model/pass.h"

namespace zaya {

// The logits of the published router: a small perceptron over a depth-averaged state (ZAYA1-8B
// report, eq. 1-4).
//
//   h = x Wd^T + bd;   h += prev * scale (blocks after the first)      handed to the next block
//   l = gelu(gelu(norm(h) W1^T + b1) W2^T + b2) W3^T
//
// Everything after Wd is in the stream type.
class RouterMlp {
 public:
  struct Saved {
    ConstTensor x;             // [T, D] compute type; belongs to the caller
    ConstTensor prev;          // [T, R] stream type: the state of the block before, or no tensor
    Tensor inv_rms;            // [T]
    ConstTensor state;         // [T, R]: what the norm read; belongs to the caller
    Tensor n, h1, g1, h2, g2;  // [T, R]: normed state; before and after each gelu
  };

  RouterMlp(const ParamScope& scope, const ModelConfig& config, Index layer);

  // x [T, D] compute type; prev, state [T, R] and logits [T, E+1] stream type.
  void forward(Pass& pass, ConstTensor x, ConstTensor prev, Tensor state, Tensor logits,
               Saved& saved) const;

  // dstate [T, R] holds the gradient of `state` from later blocks on entry and the gradient of
  // `prev` on return (zero in the first block). dx [T, D] compute type is overwritten.
  void backward(Pass& pass, const Saved& saved, ConstTensor dlogits, Tensor dstate,
                Tensor dx) const;

 private:
  double eps_;
  Index width_;
  const Param &down_, &down_bias_;
  const Param* depth_scale_;
  const Param &norm_, &w1_, &b1_, &w2_, &b2_, &w3_;
};

// Start values of a router's matrix with so many inputs.
Init router_init(const ModelConfig& config, Index inputs);

}  // namespace zaya
