// SPDX-License-Identifier: Apache-2.0
//
// Muon (github.com/KellerJordan/Muon; scaled as in arXiv 2502.16982), for one matrix W [a, b]:
//
//   m = mu m + g;   d = m, or g + mu m with Nesterov;   o = newton_schulz(d)
//   W = W (1 - lr wd) - lr 0.2 sqrt(max(a, b)) o
//
// An orthogonal o has a root mean square of 1 / sqrt(max(a, b)), so that the update's is 0.2, about
// that of AdamW: one learning rate serves both.
#pragma once

#include <vector>

#include "optim/groups.h"
#include "optim/newton_schulz.h"
#include "tensor/named_tensor.h"

namespace zaya {

class Muon {
 public:
  // Takes the momentum of all parameters with the role muon from `run` and clears it. `plans`
  // names parameters that are bound and outlive this object.
  Muon(const std::vector<ParamPlan>& plans, const OptimizerConfig& config, const Backend& backend,
       Arena& run);

  // Moves masters and their compute copies by gradients * grad_scale. Allocates nothing but what it
  // takes from scratch: two matrices and two of their smaller squares, of the largest parameter.
  void step(const Backend& backend, Arena& scratch, const Gradients& gradients, double grad_scale,
            double learning_rate);

  // Adds "optimizer.momentum.NAME", shaped as the parameter, to `out`.
  void list_state(std::vector<NamedTensor>& out) const;

 private:
  struct Entry {
    ParamPlan plan;
    Tensor momentum;      // [matrices, rows, columns] stream type
    Tensor master, copy;  // same shape; copy: no tensor when kernels read the master
  };
  // The orthogonalised direction of one matrix, in scratch: grad, momentum and result [rows,
  // columns].
  Tensor direction(const Backend& backend, Arena& scratch, ConstTensor grad, double grad_scale,
                   Tensor momentum) const;

  double momentum_, scale_, decay_;
  bool nesterov_;
  DType dtype_;  // of Newton-Schulz
  NewtonSchulz iteration_;
  std::vector<Entry> entries_;
};

}  // namespace zaya
