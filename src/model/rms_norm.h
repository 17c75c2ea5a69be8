// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/pass.h"

namespace zaya {

// Root-mean-square norm without mean subtraction: y = w * x / sqrt(mean(x^2) + eps) per token.
class RmsNorm {
 public:
  struct Saved {
    ConstTensor x;   // [T, D] stream type; belongs to the caller and stays unchanged
    Tensor inv_rms;  // [T] stream type
  };

  // Declares `name` [width] as an AdamW parameter without decay.
  RmsNorm(const ParamScope& scope, std::string_view name, Index width, double eps);

  // y [T, D]: stream or compute type.
  void forward(Pass& pass, ConstTensor x, Tensor y, Saved& saved) const;
  // dx [T, D] stream type is overwritten.
  void backward(Pass& pass, const Saved& saved, ConstTensor dy, Tensor dx) const;

 private:
  double eps_;
  const Param& weight_;
};

}  // namespace zaya
