// SPDX-License-Identifier: Apache-2.0
#include "model/router.h"

namespace zaya {

namespace {

std::optional<RouterMlp> make_mlp(const ParamScope& scope, const ModelConfig& c, Index layer) {
  if (c.router_kind == "linear") return std::nullopt;
  return RouterMlp(scope, c, layer);
}

}  // namespace

Router::Router(const ParamScope& scope, const ModelConfig& c, Index layer)
    : classes_(c.num_experts + 1),
      mlp_(make_mlp(scope, c, layer)),
      linear_(scope.declare_if(!mlp_, "weight", {classes_, c.hidden_size},
                               router_init(c, c.hidden_size), kMatrix)),
      biases_(scope.declare("balancing_biases", {classes_}, init_constant(0), kBuffer)) {}

void Router::forward(Pass& pass, ConstTensor x, ConstTensor prev, Tensor state, Routes& routes,
                     Saved& s) const {
  const Profile::Scope timed(pass.profile, "router", "forward");
  const Backend& b = pass.backend;
  const Rewind rewind(pass.scratch);
  const Index tokens = x.dim(0);
  s.x = x;
  s.probs = pass.saved.take(b.stream(), {tokens, classes_});
  s.choice = routes.choice = pass.saved.take(DType::i32, {tokens});
  routes.weight = pass.saved.take(b.stream(), {tokens});
  const Tensor logits = pass.scratch.take(b.stream(), {tokens, classes_});
  if (mlp_) {
    mlp_->forward(pass, x, prev, state, logits, s.mlp);
  } else {
    b.gemm->forward(x, linear_->weight, ConstTensor{}, logits);
    b.move->zero(state);
  }
  b.router->choose_forward(logits, biases_.weight, s.probs, routes.choice, routes.weight);
}

void Router::backward(Pass& pass, const Saved& s, ConstTensor dweight, Tensor dstate,
                      Tensor dx) const {
  const Profile::Scope timed(pass.profile, "router", "backward");
  const Backend& b = pass.backend;
  const Rewind rewind(pass.scratch);
  const Shape shape{s.x.dim(0), classes_};
  const Tensor dlogits = pass.scratch.take(b.stream(), shape);
  b.router->choose_backward(s.probs, s.choice, dweight, dlogits);
  if (mlp_) {
    mlp_->backward(pass, s.mlp, dlogits, dstate, dx);
    return;
  }
  // Products take operands of one type.
  const Tensor rounded = pass.scratch.take(b.compute(), shape);
  b.move->copy(dlogits, rounded);
  b.gemm->backward_weight(rounded, s.x, pass.gradients->of(linear_), Tensor{});
  b.gemm->backward_input(rounded, linear_->weight, dx, false);
  b.move->zero(dstate);
}

}  // namespace zaya
