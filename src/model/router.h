// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "model/router_mlp.h"

namespace zaya {

// Where each token goes: the classes 0 .. E-1 are experts, E is "skip".
struct Routes {
  Tensor choice;  // [T] i32
  Tensor weight;  // [T] stream type: the chosen class's probability, not renormalised
};

// The router (ZAYA1-8B report, eq. 1-5).
//
//   l = logits of the perceptron, or x W^T (router_kind = linear: the plain router of other models,
//       for comparison);   p = softmax(l) over E + 1 classes
//   choice = argmax(p + balancing_biases);   weight = p[choice]
//
// The gradient reaches the router through weight only.
class Router {
 public:
  struct Saved {
    RouterMlp::Saved mlp;  // not filled by a linear router
    ConstTensor x;         // [T, D] compute type; belongs to the caller
    Tensor probs;          // [T, E+1] stream type
    Tensor choice;         // [T] i32
  };

  Router(const ParamScope& scope, const ModelConfig& config, Index layer);

  // x [T, D] compute type; prev, state [T, R] stream type (a linear router clears state). routes
  // are taken from the saved arena.
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
  Index classes_;
  std::optional<RouterMlp> mlp_;
  const Param* linear_;  // null with a perceptron
  Param& biases_;
};

}  // namespace zaya
