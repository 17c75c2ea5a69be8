// SPDX-License-Identifier: Apache-2.0
#include "model/residual_mix.h"

namespace zaya {

ResidualMix::ResidualMix(const ParamScope& scope, Index width)
    : s_a_(scope.declare("hidden_states_scale", {width}, init_constant(1), kVector)),
      b_a_(scope.declare("hidden_states_bias", {width}, init_constant(0), kVector)),
      s_r_(scope.declare("residual_scale", {width}, init_constant(1), kVector)),
      b_r_(scope.declare("residual_bias", {width}, init_constant(0), kVector)) {}

MixVectors ResidualMix::vectors() const {
  return {s_r_.weight, b_r_.weight, s_a_.weight, b_a_.weight};
}

void ResidualMix::forward(Pass& pass, ConstTensor r, ConstTensor a, Tensor y, Saved& saved) const {
  const Profile::Scope timed(pass.profile, "residual scaling", "forward");
  saved.r = r;
  saved.a = a;
  pass.backend.residual->mix_forward(r, a, vectors(), y);
}

void ResidualMix::backward(Pass& pass, const Saved& saved, Tensor dr, Tensor da) const {
  const Profile::Scope timed(pass.profile, "residual scaling", "backward");
  const Gradients& d = *pass.gradients;
  pass.backend.residual->mix_backward(saved.r, saved.a, vectors(), dr, da,
                                      {d.of(s_r_), d.of(b_r_), d.of(s_a_), d.of(b_a_)});
}

}  // namespace zaya
