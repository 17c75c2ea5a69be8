// SPDX-License-Identifier: Apache-2.0
#include "optim/adamw.h"

#include <cmath>

namespace zaya {

AdamW::AdamW(const std::vector<ParamPlan>& plans, const OptimizerConfig& config,
             const Backend& backend, Arena& run)
    : beta1_(config.beta1),
      beta2_(config.beta2),
      eps_(config.eps),
      decay_(config.weight_decay),
      learning_rate_scale_(config.kind == "muon" ? config.adamw_learning_rate_scale : 1) {
  const Arena::Scope scope(run, "adamw moments");
  for (const ParamPlan& plan : plans) {
    if (plan.role != OptimizerRole::adamw) continue;
    const Param& param = *plan.param;
    Entry entry{plan, run.take(backend.stream(), param.shape),
                run.take(backend.stream(), param.shape), Tensor{}};
    if (param.weight.dtype() != param.master.dtype()) entry.copy = param.weight;
    for (const Tensor& moment : {entry.first, entry.second}) {
      if (moment.data() != nullptr) backend.move->zero(moment);
    }
    entries_.push_back(entry);
  }
}

void AdamW::step(const Backend& backend, const Gradients& gradients, double grad_scale,
                 double learning_rate, Index update) {
  AdamWArgs args;
  args.grad_scale = grad_scale;
  args.learning_rate = learning_rate * learning_rate_scale_;
  args.beta1 = beta1_;
  args.beta2 = beta2_;
  args.eps = eps_;
  args.correction1 = 1 - std::pow(beta1_, static_cast<double>(update));
  args.correction2 = 1 - std::pow(beta2_, static_cast<double>(update));
  for (const Entry& entry : entries_) {
    args.value = entry.plan.param->master;
    args.first_moment = entry.first;
    args.second_moment = entry.second;
    args.copy = entry.copy;
    args.grad = gradients.of(*entry.plan.param);
    args.weight_decay = entry.plan.decays ? decay_ : 0;
    backend.optim->adamw(args);
  }
}

void AdamW::list_state(std::vector<NamedTensor>& out) const {
  for (const Entry& entry : entries_) {
    const std::string& name = entry.plan.param->name;
    out.push_back({"optimizer.first_moment." + name, entry.first});
    out.push_back({"optimizer.second_moment." + name, entry.second});
  }
}

}  // namespace zaya
