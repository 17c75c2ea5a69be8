// SPDX-License-Identifier: Apache-2.0
#include "optim/newton_schulz.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace zaya {

namespace {

struct CoefficientSet {
  std::string_view name;
  double margin;
  std::vector<QuinticStep> steps;
};

std::vector<CoefficientSet> coefficient_sets() {
  return {
      {"keller", 1, {{3.4445, -4.7750, 2.0315}}},
      {"polar_express",
       1.02,
       {{8.156554524902461, -22.48329292557795, 15.878769915207462},
        {4.042929935166739, -2.808917465908714, 0.5000178451051316},
        {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
        {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
        {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}}},
      {"quintic",
       1,
       {{4.0848, -6.8946, 2.9270},
        {3.9505, -6.3029, 2.6377},
        {3.7418, -5.5913, 2.3037},
        {2.8769, -3.1427, 1.2046},
        {2.8366, -3.0525, 1.2012}}},
  };
}

}  // namespace

NewtonSchulz newton_schulz(std::string_view coefficients, Index num_steps) {
  ZAYA_CHECK(num_steps >= 1);
  const std::vector<CoefficientSet> sets = coefficient_sets();
  const auto set = std::find_if(sets.begin(), sets.end(),
                                [&](const CoefficientSet& s) { return s.name == coefficients; });
  ZAYA_CHECK(set != sets.end(), std::string(coefficients));
  NewtonSchulz out;
  out.margin = set->margin;
  const Index last = static_cast<Index>(set->steps.size()) - 1;
  for (Index i = 0; i < num_steps; ++i) out.steps.push_back(set->steps[std::min(i, last)]);
  return out;
}

void orthogonalize(const Backend& backend, const NewtonSchulz& iteration, Tensor& x, Tensor& spare,
                   Arena& scratch) {
  ZAYA_CHECK(x.shape().rank() == 2 && x.dim(0) <= x.dim(1) && spare.shape() == x.shape());
  const Rewind rewind(scratch);
  const Index n = x.dim(0);
  const Tensor square = scratch.take(x.dtype(), {n, n});      // A
  const Tensor polynomial = scratch.take(x.dtype(), {n, n});  // B
  const double norm = std::sqrt(backend.optim->sum_squares(x));
  // The first step works on scale * x; the factor enters its products, so that no pass over x is
  // spent on it.
  double scale = 1 / (iteration.margin * (norm + 1e-7));
  for (const QuinticStep& step : iteration.steps) {
    backend.gemm->symmetric(x, scale * scale, ConstTensor{}, 0, square);
    backend.gemm->symmetric(square, scale * step.c, square, scale * step.b, polynomial);
    backend.gemm->multiply_add(polynomial, x, scale * step.a, spare);
    std::swap(x, spare);
    scale = 1;
  }
}

}  // namespace zaya
