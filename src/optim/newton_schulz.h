// SPDX-License-Identifier: Apache-2.0
//
// Newton-Schulz steps that drive the singular values of a matrix towards one.
//
//   X = M / (m (|M|_F + 1e-7));   each step:  A = X X^T,  B = b A + c A A,  X = a X + B X
//
// A step maps every singular value s to a s + b s^3 + c s^5 and keeps the singular vectors. The
// values do not converge to one exactly; five steps on inputs within [0.01, 1] end in [0.68, 1.13]
// with `keller` and in [0.86, 1.14] with `polar_express`.
#pragma once

#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "tensor/arena.h"

namespace zaya {

struct QuinticStep {
  double a = 0, b = 0, c = 0;
};

struct NewtonSchulz {
  std::vector<QuinticStep> steps;
  double margin = 1;  // m above: room for rounding where the first step expects values below one
};

// A set of coefficients with `num_steps` steps; a set with fewer repeats its last one.
//   keller         one step, repeated: github.com/KellerJordan/Muon, also arXiv 2502.16982
//   polar_express  five steps for five-step use, margin 1.02: arXiv 2505.16932, as in
//                  github.com/microsoft/dion
//   quintic        five steps: github.com/microsoft/dion and github.com/NVIDIA-NeMo/
//                  Emerging-Optimizers
NewtonSchulz newton_schulz(std::string_view coefficients, Index num_steps);

// x [n, m] with n <= m, of the stream or the compute type. On return x holds the result and
// `spare`, of the same dtype and shape, undefined values; the two may have changed places. Two [n,
// n] come from scratch. A zero matrix stays zero; NaN comes through.
void orthogonalize(const Backend& backend, const NewtonSchulz& iteration, Tensor& x, Tensor& spare,
                   Arena& scratch);

}  // namespace zaya
