// SPDX-License-Identifier: Apache-2.0
#include "model/router_mlp.h"

#include <cmath>

namespace zaya {

Init router_init(const ModelConfig& c, Index inputs) {
  if (c.router_initializer_range > 0) return init_normal(c.router_initializer_range);
  return init_normal(c.router_initializer_gain / std::sqrt(static_cast<double>(inputs)));
}

RouterMlp::RouterMlp(const ParamScope& scope, const ModelConfig& c, Index layer)
    : eps_(c.router_eps()),
      width_(c.router_hidden_size),
      down_(scope.declare("down_proj.weight", {width_, c.hidden_size},
                          router_init(c, c.hidden_size), kMatrix)),
      down_bias_(scope.declare("down_proj.bias", {width_}, init_constant(0), kVector)),
      depth_scale_(
          scope.declare_if(layer > 0, "router_states_scale", {width_}, init_constant(1), kVector)),
      norm_(scope.declare("router_mlp.norm.weight", {width_}, init_constant(1), kVector)),
      w1_(scope.declare("router_mlp.fc1.weight", {width_, width_}, router_init(c, width_),
                        kStreamMatrix)),
      b1_(scope.declare("router_mlp.fc1.bias", {width_}, init_constant(0), kVector)),
      w2_(scope.declare("router_mlp.fc2.weight", {width_, width_}, router_init(c, width_),
                        kStreamMatrix)),
      b2_(scope.declare("router_mlp.fc2.bias", {width_}, init_constant(0), kVector)),
      w3_(scope.declare("router_mlp.out_proj.weight", {c.num_experts + 1, width_},
                        router_init(c, width_), kStreamMatrix)) {}

void RouterMlp::forward(Pass& pass, ConstTensor x, ConstTensor prev, Tensor state, Tensor logits,
                        Saved& s) const {
  const Backend& b = pass.backend;
  const Index tokens = x.dim(0);
  s.x = x;
  s.prev = prev;
  s.state = state;
  s.inv_rms = pass.saved.take(b.stream(), {tokens});
  for (Tensor* t : {&s.n, &s.h1, &s.g1, &s.h2, &s.g2})
    *t = pass.saved.take(b.stream(), {tokens, width_});

  b.gemm->forward(x, down_.weight, down_bias_.weight, state);
  if (depth_scale_ != nullptr) b.router->depth_forward(prev, depth_scale_->weight, state);
  b.norm->rms_forward(state, norm_.weight, eps_, s.n, s.inv_rms);
  b.gemm->forward(s.n, w1_.weight, b1_.weight, s.h1);
  b.router->gelu_forward(s.h1, s.g1);
  b.gemm->forward(s.g1, w2_.weight, b2_.weight, s.h2);
  b.router->gelu_forward(s.h2, s.g2);
  b.gemm->forward(s.g2, w3_.weight, ConstTensor{}, logits);
}

void RouterMlp::backward(Pass& pass, const Saved& s, ConstTensor dlogits, Tensor dstate,
                         Tensor dx) const {
  const Backend& b = pass.backend;
  const Gradients& d = *pass.gradients;
  const Rewind rewind(pass.scratch);
  const Index tokens = s.x.dim(0);
  const Tensor dg = pass.scratch.take(b.stream(), {tokens, width_});
  const Tensor dn = pass.scratch.take(b.stream(), {tokens, width_});
  b.gemm->backward_weight(dlogits, s.g2, d.of(w3_), Tensor{});
  b.gemm->backward_input(dlogits, w3_.weight, dg, false);
  b.router->gelu_backward(s.h2, dg, dg);
  b.gemm->backward_weight(dg, s.g1, d.of(w2_), d.of(b2_));
  b.gemm->backward_input(dg, w2_.weight, dn, false);
  b.router->gelu_backward(s.h1, dn, dn);
  b.gemm->backward_weight(dn, s.n, d.of(w1_), d.of(b1_));
  b.gemm->backward_input(dn, w1_.weight, dg, false);
  b.norm->rms_backward(s.state, norm_.weight, s.inv_rms, dg, dn, d.of(norm_));
  b.move->add(dn, 1, dstate);  // the state feeds this router's norm and the next block

  // The product with x takes operands of one type.
  const Tensor dh = pass.scratch.take(b.compute(), {tokens, width_});
  b.move->copy(dstate, dh);
  b.gemm->backward_weight(dh, s.x, d.of(down_), d.of(down_bias_));
  b.gemm->backward_input(dh, down_.weight, dx, false);
  if (depth_scale_ == nullptr) {
    b.move->zero(dstate);
  } else {
    b.move->copy(dstate, dn);
    b.router->depth_backward(s.prev, depth_scale_->weight, dn, dstate, d.of(*depth_scale_));
  }
}

}  // namespace zaya
