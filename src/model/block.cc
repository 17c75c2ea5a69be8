// SPDX-License-Identifier: Apache-2.0
#include "model/block.h"

namespace zaya {

Block::Block(const ParamScope& scope, const ModelConfig& c, Index layer)
    : layer_(layer),
      norm1_(scope, "input_layernorm.weight", c.hidden_size, c.rms_norm_eps),
      cca_(scope.scope("self_attn"), c, layer),
      mix1_(scope.scope("post_attention_residual_scale"), c.hidden_size),
      norm2_(scope, "post_attention_layernorm.weight", c.hidden_size, c.rms_norm_eps),
      router_(scope.scope("mlp.gate"), c, layer),
      experts_(scope.scope("mlp.experts"), c),
      mix2_(scope.scope("post_mlp_residual_scale"), c.hidden_size) {}

void Block::forward(Pass& pass, const Stream& in, const Stream& out, Saved& s) const {
  const Shape shape = in.r.shape();
  const DType compute = pass.backend.compute();
  for (Tensor* t : {&s.x1, &s.a, &s.x2, &s.m}) *t = pass.saved.take(compute, shape);
  s.mid = pass.saved.take(pass.backend.stream(), shape);

  norm1_.forward(pass, in.r, s.x1, s.norm1);
  cca_.forward(pass, s.x1, s.a, s.cca);
  mix1_.forward(pass, in.r, s.a, s.mid, s.mix1);
  norm2_.forward(pass, s.mid, s.x2, s.norm2);
  router_.forward(pass, s.x2, in.router, out.router, s.routes, s.router);
  experts_.forward(pass, s.x2, s.routes, pass.loads[layer_], s.m, s.experts);
  mix2_.forward(pass, s.mid, s.m, out.r, s.mix2);
}

void Block::backward(Pass& pass, const Saved& s, const Stream& d) const {
  const Backend& b = pass.backend;
  const Rewind rewind(pass.scratch);
  const Shape shape = d.r.shape();
  const Tensor branch = pass.scratch.take(b.compute(), shape);   // of a half-layer's output
  const Tensor x = pass.scratch.take(b.compute(), shape);        // of a normed stream
  const Tensor extra_x = pass.scratch.take(b.compute(), shape);  // second contribution to x
  const Tensor extra_r = pass.scratch.take(b.stream(), shape);   // second contribution to d.r
  const Tensor weight = pass.scratch.take(b.stream(), {shape[0]});

  mix2_.backward(pass, s.mix2, d.r, branch);
  experts_.backward(pass, s.experts, branch, x, weight);
  router_.backward(pass, s.router, weight, d.router, extra_x);
  b.move->add(extra_x, 1, x);  // x2 feeds the experts and the router
  norm2_.backward(pass, s.norm2, x, extra_r);
  b.move->add(extra_r, 1, d.r);  // the stream feeds mix2 and norm2
  mix1_.backward(pass, s.mix1, d.r, branch);
  cca_.backward(pass, s.cca, branch, x);
  norm1_.backward(pass, s.norm1, x, extra_r);
  b.move->add(extra_r, 1, d.r);  // the stream feeds mix1 and norm1
}

}  // namespace zaya
