// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/config.h"
#include "model/pass.h"

namespace zaya {

// Entry of tokens into the residual stream.
//
//   forward    x = (table[id] + b) * s            per channel, stream type from here on
class Embedding {
 public:
  // Declares embed_tokens.weight [V, D] (AdamW, decayed) and the two entry vectors [D].
  Embedding(const ParamScope& scope, const ModelConfig& config);

  // Writes x [T, D] stream type.
  void forward(Pass& pass, Tensor x) const;
  void backward(Pass& pass, ConstTensor dx) const;

  const Param& table() const { return table_; }

 private:
  Index pad_id_;
  const Param &table_, &scale_, &bias_;
};

}  // namespace zaya
