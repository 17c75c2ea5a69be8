// SPDX-License-Identifier: Apache-2.0
#include "model/lm_head.h"

namespace zaya {

LmHead::LmHead(const ParamScope& model_scope, const ParamScope& root, const ModelConfig& c,
               const Param& table)
    : vocabulary_(c.vocab_size),
      norm_(model_scope, "norm.weight", c.hidden_size, c.rms_norm_eps),
      weight_(c.tie_word_embeddings ? table
                                    : root.declare("lm_head.weight", {c.vocab_size, c.hidden_size},
                                                   init_normal(c.initializer_range), kTable)),
      bias_(root.declare_if(c.lm_head_bias, "lm_head.bias", {c.vocab_size}, init_constant(0),
                            kVector)) {}

void LmHead::normalize(Pass& pass, ConstTensor r, Saved& s) const {
  s.x = pass.saved.take(pass.backend.compute(), r.shape());
  norm_.forward(pass, r, s.x, s.norm);
}

double LmHead::loss(Pass& pass, const Saved& s, double scale, Tensor dr, Tensor logprobs) const {
  const Profile::Scope timed(pass.profile, "head and loss", "both");
  const Backend& b = pass.backend;
  const Rewind rewind(pass.scratch);
  const Index tokens = s.x.dim(0);
  LossArgs args;
  args.x = s.x;
  args.w = weight_.weight;
  args.bias = weight_of(bias_);
  args.targets = pass.batch.targets;
  args.scratch = pass.scratch.take(b.stream(), {loss_chunk_rows(tokens, vocabulary_), vocabulary_});
  if (pass.gradients == nullptr) return b.loss->cross_entropy(args, nullptr, logprobs);
  LossGradients d;
  d.scale = scale;
  d.dx = pass.scratch.take(b.compute(), s.x.shape());
  d.dw = pass.gradients->of(weight_);
  d.dbias = pass.gradients->of(bias_);
  const double sum = b.loss->cross_entropy(args, &d, logprobs);
  norm_.backward(pass, s.norm, d.dx, dr);
  return sum;
}

void LmHead::logits(Pass& pass, ConstTensor x, Tensor logits) const {
  pass.backend.gemm->forward(x, weight_.weight, weight_of(bias_), logits);
}

}  // namespace zaya
