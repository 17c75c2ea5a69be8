// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/cca.h"
#include "model/experts.h"
#include "model/residual_mix.h"
#include "model/rms_norm.h"
#include "model/router.h"

namespace zaya {

// The two streams that run through all blocks.
struct Stream {
  Tensor r;       // [T, D] stream type: residual stream
  Tensor router;  // [T, R] stream type: router state; no tensor before the first block
};

// One block: attention, then experts, each normed before and mixed into the stream after.
class Block {
 public:
  struct Saved {
    Tensor x1, x2;  // [T, D] compute type: after the norms
    Tensor a, m;    // [T, D] compute type: outputs of attention and experts
    Tensor mid;     // [T, D] stream type: the stream between the halves
    Routes routes;
    RmsNorm::Saved norm1, norm2;
    Cca::Saved cca;
    ResidualMix::Saved mix1, mix2;
    Router::Saved router;
    Experts::Saved experts;
  };

  Block(const ParamScope& scope, const ModelConfig& config, Index layer);

  // Everything in `saved` is taken from the saved arena. `in` stays unchanged until backward.
  void forward(Pass& pass, const Stream& in, const Stream& out, Saved& saved) const;

  // On entry `d` holds the gradients of the block's outputs, on return those of its inputs.
  void backward(Pass& pass, const Saved& saved, const Stream& d) const;

  Cca& cca() { return cca_; }
  const Router& router() const { return router_; }

 private:
  Index layer_;
  RmsNorm norm1_;
  Cca cca_;
  ResidualMix mix1_;
  RmsNorm norm2_;
  Router router_;
  Experts experts_;
  ResidualMix mix2_;
};

}  // namespace zaya
