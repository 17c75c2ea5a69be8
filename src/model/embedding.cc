// SPDX-License-Identifier: Apache-2.0
#include "model/embedding.h"

namespace zaya {

Embedding::Embedding(const ParamScope& scope, const ModelConfig& config)
    : pad_id_(config.pad_token_id),
      table_(scope.declare("embed_tokens.weight", {config.vocab_size, config.hidden_size},
                           init_normal(config.initializer_range), kTable)),
      scale_(scope.declare("input_hidden_states_scale", {config.hidden_size}, init_constant(1),
                           kVector)),
      bias_(scope.declare("input_hidden_states_bias", {config.hidden_size}, init_constant(0),
                          kVector)) {}

void Embedding::forward(Pass& pass, Tensor x) const {
  const Profile::Scope timed(pass.profile, "embedding", "forward");
  pass.backend.residual->entry_forward(pass.batch.ids, table_.weight, bias_.weight, scale_.weight,
                                       x);
}

void Embedding::backward(Pass& pass, ConstTensor dx) const {
  const Profile::Scope timed(pass.profile, "embedding", "backward");
  const Gradients& d = *pass.gradients;
  pass.backend.residual->entry_backward(pass.batch.ids, table_.weight, bias_.weight, scale_.weight,
                                        dx, pad_id_, d.of(table_), d.of(bias_), d.of(scale_));
}

}  // namespace zaya
