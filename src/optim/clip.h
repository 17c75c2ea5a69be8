// SPDX-License-Identifier: Apache-2.0
//
// Global norm of the gradient, and the factor that keeps it below a limit.
#pragma once

#include <optional>

#include "backend/backend.h"

namespace zaya {

// Euclidean norm of factor * flat, where `flat` holds every parameter's gradient once (a shared
// table too) and zeros between them. Sums are in double and in an order that depends on the size
// only. Nothing when the gradient holds NaN or infinity.
[[nodiscard]] std::optional<double> gradient_norm(const Backend& backend, ConstTensor flat,
                                                  double factor = 1);

// What a gradient of this finite norm is multiplied by: limit / norm, at most 1. limit 0: 1.
double clip_factor(double norm, double limit);

}  // namespace zaya
