// SPDX-License-Identifier: Apache-2.0
#include "optim/clip.h"

#include <cmath>

namespace zaya {

std::optional<double> gradient_norm(const Backend& backend, ConstTensor flat, double factor) {
  // Squares of f32 do not overflow in double, so the sum is finite if and only if all elements are.
  const double norm = std::sqrt(backend.optim->sum_squares(flat)) * std::abs(factor);
  if (!std::isfinite(norm)) return std::nullopt;
  return norm;
}

double clip_factor(double norm, double limit) {
  return limit > 0 && norm > limit ? limit / norm : 1;
}

}  // namespace zaya
