// SPDX-License-Identifier: Apache-2.0
#include "optim/muon.h"

#include <algorithm>
#include <cmath>

namespace zaya {

namespace {

DType muon_dtype(const OptimizerConfig& config, const Backend& backend) {
  if (config.muon_dtype == "f32") return backend.stream();
  if (config.kind != "muon") return backend.compute();  // not used, hence not checked
  ZAYA_CHECK(config.muon_dtype == "auto" || backend.compute() == DType::bf16,
             "muon_dtype = bf16 was not checked against the run's element types");
  return backend.compute();
}

}  // namespace

Muon::Muon(const std::vector<ParamPlan>& plans, const OptimizerConfig& config,
           const Backend& backend, Arena& run)
    : momentum_(config.muon_momentum),
      scale_(config.muon_scale),
      decay_(config.weight_decay),
      nesterov_(config.muon_nesterov),
      dtype_(muon_dtype(config, backend)),
      iteration_(newton_schulz(config.muon_coefficients, config.muon_steps)) {
  const Arena::Scope scope(run, "muon momentum");
  for (const ParamPlan& plan : plans) {
    if (plan.role != OptimizerRole::muon) continue;
    const Param& param = *plan.param;
    const Shape shape{plan.matrices, plan.rows, plan.columns};
    Entry entry{plan, run.take(backend.stream(), shape), param.master.reshaped(shape), {}};
    if (param.weight.dtype() != param.master.dtype()) entry.copy = param.weight.reshaped(shape);
    if (entry.momentum.data() != nullptr) backend.move->zero(entry.momentum);
    entries_.push_back(entry);
  }
}

Tensor Muon::direction(const Backend& backend, Arena& scratch, ConstTensor grad, double grad_scale,
                       Tensor momentum) const {
  const Index rows = grad.dim(0), columns = grad.dim(1);
  const Tensor first = scratch.take(dtype_, {rows, columns});
  const Tensor second = scratch.take(dtype_, {std::min(rows, columns), std::max(rows, columns)});
  backend.optim->momentum(grad, grad_scale, momentum_, nesterov_, momentum, first);
  if (rows <= columns) {
    Tensor x = first, spare = second;
    orthogonalize(backend, iteration_, x, spare, scratch);
    return x;
  }
  Tensor x = second, spare = first.reshaped(second.shape());
  backend.move->transpose(first, x);
  orthogonalize(backend, iteration_, x, spare, scratch);
  const Tensor out = spare.reshaped({rows, columns});
  backend.move->transpose(x, out);
  return out;
}

void Muon::step(const Backend& backend, Arena& scratch, const Gradients& gradients,
                double grad_scale, double learning_rate) {
  for (const Entry& entry : entries_) {
    const ParamPlan& plan = entry.plan;
    const Tensor grad = gradients.of(*plan.param).reshaped(entry.master.shape());
    const double longest = static_cast<double>(std::max(plan.rows, plan.columns));
    const double factor = learning_rate * scale_ * std::sqrt(longest);
    const double decay = plan.decays ? learning_rate * decay_ : 0;
    for (Index i = 0; i < plan.matrices; ++i) {
      const Rewind rewind(scratch);
      const Tensor update = direction(backend, scratch, grad[i], grad_scale, entry.momentum[i]);
      const Tensor copy = entry.copy.is_none() ? Tensor{} : entry.copy[i];
      backend.optim->decayed_add(entry.master[i], update, decay, factor, copy);
    }
  }
}

void Muon::list_state(std::vector<NamedTensor>& out) const {
  for (const Entry& entry : entries_) {
    const Param& param = *entry.plan.param;
    out.push_back({"optimizer.momentum." + param.name, entry.momentum.reshaped(param.shape)});
  }
}

}  // namespace zaya
