// SPDX-License-Identifier: Apache-2.0
#include "model/rms_norm.h"

namespace zaya {

RmsNorm::RmsNorm(const ParamScope& scope, std::string_view name, Index width, double eps)
    : eps_(eps), weight_(scope.declare(name, {width}, init_constant(1), kVector)) {}

void RmsNorm::forward(Pass& pass, ConstTensor x, Tensor y, Saved& saved) const {
  const Profile::Scope timed(pass.profile, "norm", "forward");
  saved.x = x;
  saved.inv_rms = pass.saved.take(pass.backend.stream(), {x.rows()});
  pass.backend.norm->rms_forward(x, weight_.weight, eps_, y, saved.inv_rms);
}

void RmsNorm::backward(Pass& pass, const Saved& saved, ConstTensor dy, Tensor dx) const {
  const Profile::Scope timed(pass.profile, "norm", "backward");
  pass.backend.norm->rms_backward(saved.x, weight_.weight, saved.inv_rms, dy, dx,
                                  pass.gradients->of(weight_));
}

}  // namespace zaya
