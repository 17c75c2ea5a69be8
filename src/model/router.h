// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/config.h"
#include "model/pass.h"

namespace zaya {

// Where each token goes: the classes 0 .. E-1 are experts, E is "skip".
struct Routes {
  Tensor choice;  // [T] i32
  Tensor weight;  // [T] stream type: the chosen class's probability, not renormalised
};

// The router (ZAYA1-8B report, eq. 1-5): a small perceptron over a depth-averaged state.
//
//   h = x Wd^T + bd;   h += prev * scale (blocks after the first)      handed to the next block
//   l = gelu(gelu(norm(h) W1^T + b1) W2^T + b2) W3^T;   p = softmax(l) over E + 1 classes
//   choice = argmax(p + balancing_biases);   weight = p[choice]
//
// The gradient reaches the router through weight only. Everything after Wd is in the stream type.
class Router {
 public:
  struct Saved {
    ConstTensor x;             // [T, D] compute type; belongs to the caller
    ConstTensor prev;          // [T, R] stream type: the state of the block before, or no tensor
    Tensor inv_rms;            // [T]
    ConstTensor state;         // [T, R]: what the norm read; belongs to the caller
    Tensor n, h1, g1, h2, g2;  // [T, R]: normed state; before and after each gelu
    Tensor probs;              // [T, E+1]
    Tensor choice;             // [T] i32
  };

  Router(const ParamScope& scope, const ModelConfig& config, Index layer);

  // x [T, D] compute type; prev, state [T, R] stream type. routes are taken from the saved arena.
  void forward(Pass& pass, ConstTensor x, ConstTensor prev, Tensor state, Routes& routes,
               Saved& saved) const;

  // dweight [T] stream type: gradient of routes.weight. dstate [T, R] holds the gradient of `state`
  // from later blocks on entry and the gradient of `prev` on return (zero in the first block).
  // dx [T, D] compute type is overwritten.
  void backward(Pass& pass, const Saved& saved, ConstTensor dweight, Tensor dstate,
                Tensor dx) const;

  // [E+1] stream type; moved by the balancing controller, not by a gradient.
  Param& balancing_biases() const { return biases_; }

 private:
  double eps_;
  Index width_, classes_;
  const Param &down_, &down_bias_;
  const Param* depth_scale_;
  const Param &norm_, &w1_, &b1_, &w2_, &b2_, &w3_;
  Param& biases_;
};

}  // namespace zaya
