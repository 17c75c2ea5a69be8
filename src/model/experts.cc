// SPDX-License-Identifier: Apache-2.0
#include "model/experts.h"

namespace zaya {

Experts::Experts(const ParamScope& scope, const ModelConfig& c)
    : width_(c.hidden_size),
      inner_(c.moe_intermediate_size),
      num_experts_(c.num_experts),
      gate_up_(scope.declare("gate_up_proj", {num_experts_, 2 * inner_, width_},
                             init_normal(c.initializer_range), kMatrix)),
      down_(scope.declare("down_proj", {num_experts_, width_, inner_},
                          init_normal(c.initializer_range), kMatrix)) {}

void Experts::forward(Pass& pass, ConstTensor x, const Routes& routes, Tensor loads, Tensor m,
                      Saved& s) const {
  const Profile::Scope timed(pass.profile, "experts", "forward");
  const Backend& b = pass.backend;
  const Rewind rewind(pass.scratch);
  const Index tokens = x.dim(0), rows = max_expert_rows(tokens, num_experts_);
  s.x = x;
  s.weight = routes.weight;
  s.plan = {pass.saved.take(DType::i32, {tokens}), pass.saved.take(DType::i32, {rows}),
            pass.saved.take(DType::i32, {num_experts_ + 1}), loads};
  s.gu = pass.saved.take(b.compute(), {rows, 2 * inner_});
  b.experts->dispatch(routes.choice, num_experts_, s.plan);
  const Tensor x_rows = pass.scratch.take(b.compute(), {rows, width_});
  b.experts->gather(x, s.plan, x_rows);
  b.experts->grouped_forward(x_rows, gate_up_.weight, s.plan, s.gu);
  const Tensor a = pass.scratch.take(b.compute(), {rows, inner_});
  b.experts->swiglu_forward(s.gu, s.plan, a);
  const Tensor y = x_rows;  // the gathered rows are not needed any more
  b.experts->grouped_forward(a, down_.weight, s.plan, y);
  b.experts->combine_forward(y, x, routes.weight, s.plan, pass.skip_is_identity, m);
}

void Experts::backward(Pass& pass, const Saved& s, ConstTensor dm, Tensor dx,
                       Tensor dweight) const {
  const Profile::Scope timed(pass.profile, "experts", "backward");
  const Backend& b = pass.backend;
  const Gradients& d = *pass.gradients;
  const Rewind rewind(pass.scratch);
  const Index rows = s.gu.dim(0);
  const Tensor wide = pass.scratch.take(b.compute(), {rows, width_});
  const Tensor da = pass.scratch.take(b.compute(), {rows, inner_});
  const Tensor dgu = pass.scratch.take(b.compute(), {rows, 2 * inner_});
  const Tensor wa = pass.scratch.take(b.compute(), {rows, inner_});
  b.experts->gather(dm, s.plan, wide);
  b.experts->grouped_backward_input(wide, down_.weight, s.plan, da);
  b.experts->swiglu_backward(s.gu, da, s.weight, s.plan, dgu, wa, dweight);
  b.experts->grouped_backward_weight(wide, wa, s.plan, d.of(down_));
  b.experts->gather(s.x, s.plan, wide);
  b.experts->grouped_backward_weight(dgu, wide, s.plan, d.of(gate_up_));
  b.experts->grouped_backward_input(dgu, gate_up_.weight, s.plan, wide);
  b.experts->combine_backward(wide, dm, s.x, s.weight, s.plan, pass.skip_is_identity, dx, dweight);
}

}  // namespace zaya
