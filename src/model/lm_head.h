// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/config.h"
#include "model/pass.h"
#include "model/rms_norm.h"

namespace zaya {

// Final norm, output head and cross-entropy. A tied head reads the token table.
class LmHead {
 public:
  // `table` is the token table [V, D]; declares norm.weight [D] under `model_scope` and, unless
  // tied, lm_head.weight [V, D] (and lm_head.bias [V]) under `root`.
  LmHead(const ParamScope& model_scope, const ParamScope& root, const ModelConfig& config,
         const Param& table);

  struct Saved {
    RmsNorm::Saved norm;
    Tensor x;  // [T, D] compute type: after the norm
  };

  void normalize(Pass& pass, ConstTensor r, Saved& saved) const;

  // Loss summed over tokens with a target. With gradients: those of the head are added, and dr
  // [T, D] stream type (overwritten) gets scale * d loss / d r. logprobs [T] or no tensor.
  double loss(Pass& pass, const Saved& saved, double scale, Tensor dr, Tensor logprobs) const;

  // logits [n, V] stream type of rows x [n, D] compute type.
  void logits(Pass& pass, ConstTensor x, Tensor logits) const;

 private:
  Index vocabulary_;
  RmsNorm norm_;
  const Param& weight_;
  const Param* bias_;
};

}  // namespace zaya
