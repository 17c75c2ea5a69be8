// SPDX-License-Identifier: Apache-2.0
//
// The optimizer of a run: Muon and AdamW behind one step, one learning rate and one list of state.
#pragma once

#include <vector>

#include "base/profile.h"
#include "optim/adamw.h"
#include "optim/muon.h"

namespace zaya {

class Optimizer {
 public:
  // Takes all state from `run` and clears it. `params` is bound for training and outlives this
  // object. On a dry arena nothing is cleared and step() only counts.
  Optimizer(const ParamSet& params, const OptimizerConfig& config, const Backend& backend,
            Arena& run);

  // Update number `update`, from 1: skipped steps do not count. The gradient is gradients *
  // grad_scale (clipping, and dividing by the number of targets); it is read, never cleared.
  // Nothing is allocated on the heap; scratch is as it was on return.
  void step(const Backend& backend, Arena& scratch, const Gradients& gradients, double grad_scale,
            double learning_rate, Index update, Profile* profile = nullptr);

  // Everything besides the parameters and `update` that the next step depends on, by name:
  // "optimizer.momentum.NAME", "optimizer.first_moment.NAME" and
  // "optimizer.second_moment.NAME". The tensors live in the run arena.
  std::vector<NamedTensor> state() const;

 private:
  Optimizer(const std::vector<ParamPlan>& plans, const OptimizerConfig& config,
            const Backend& backend, Arena& run);

  Muon muon_;
  AdamW adamw_;
};

}  // namespace zaya
