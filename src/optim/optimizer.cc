// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.h"

namespace zaya {

Optimizer::Optimizer(const ParamSet& params, const OptimizerConfig& config, const Backend& backend,
                     Arena& run)
    : Optimizer(plan_params(params, config), config, backend, run) {}

Optimizer::Optimizer(const std::vector<ParamPlan>& plans, const OptimizerConfig& config,
                     const Backend& backend, Arena& run)
    : muon_(plans, config, backend, run), adamw_(plans, config, backend, run) {}

void Optimizer::step(const Backend& backend, Arena& scratch, const Gradients& gradients,
                     double grad_scale, double learning_rate, Index update, Profile* profile) {
  ZAYA_CHECK(update >= 1);
  {
    const Profile::Scope timed(profile, "Muon");
    muon_.step(backend, scratch, gradients, grad_scale, learning_rate);
  }
  const Profile::Scope timed(profile, "AdamW");
  adamw_.step(backend, gradients, grad_scale, learning_rate, update);
}

std::vector<NamedTensor> Optimizer::state() const {
  std::vector<NamedTensor> out;
  muon_.list_state(out);
  adamw_.list_state(out);
  return out;
}

}  // namespace zaya
