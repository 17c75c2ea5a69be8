// SPDX-License-Identifier: Apache-2.0
//
// AdamW (arXiv 1711.05101) for every parameter with that role; the formula stands at the kernel,
// backend/optim.h.
#pragma once

#include <vector>

#include "optim/groups.h"
#include "tensor/named_tensor.h"

namespace zaya {

class AdamW {
 public:
  // Takes two moments of all parameters with the role adamw from `run` and clears them. `plans`
  // names parameters that are bound and outlive this object.
  AdamW(const std::vector<ParamPlan>& plans, const OptimizerConfig& config, const Backend& backend,
        Arena& run);

  // Update number `update`, from 1. Moves masters and their compute copies by gradients *
  // grad_scale. Allocates nothing.
  void step(const Backend& backend, const Gradients& gradients, double grad_scale,
            double learning_rate, Index update);

  // Adds "optimizer.first_moment.NAME" and "optimizer.second_moment.NAME" to `out`.
  void list_state(std::vector<NamedTensor>& out) const;

 private:
  struct Entry {
    ParamPlan plan;
    Tensor first, second;  // shaped as the parameter, stream type
    Tensor copy;           // no tensor when kernels read the master
  };

  double beta1_, beta2_, eps_, decay_, learning_rate_scale_;
  std::vector<Entry> entries_;
};

}  // namespace zaya
