// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/config.h"
#include "model/pass.h"
#include "model/router.h"

namespace zaya {

// Top-1 gated experts; no capacity, nothing is dropped.
//
//   m[t] = weight[t] * (silu(x g^T) * (x u^T)) w2^T    with [g; u] and w2 of expert choice[t]
//   skip:  m[t] = 0, or weight[t] * x[t] with the identity meaning
class Experts {
 public:
  struct Saved {
    ConstTensor x;       // [T, D] compute type; belongs to the caller
    ConstTensor weight;  // [T] stream type; belongs to the caller
    RowPlan plan;
    Tensor gu;  // [rows, 2F] compute type: gate and up of each row
  };

  // Declares gate_up_proj [E, 2F, D] and down_proj [E, D, F]: one Muon matrix per expert each.
  Experts(const ParamScope& scope, const ModelConfig& config);

  // m [T, D] compute type is written; loads [E+1] i64 gets the tokens per class.
  void forward(Pass& pass, ConstTensor x, const Routes& routes, Tensor loads, Tensor m,
               Saved& saved) const;
  // dm [T, D] compute type. dx [T, D] compute type and dweight [T] stream type are overwritten.
  void backward(Pass& pass, const Saved& saved, ConstTensor dm, Tensor dx, Tensor dweight) const;

 private:
  Index width_, inner_, num_experts_;
  const Param &gate_up_, &down_;
};

}  // namespace zaya
