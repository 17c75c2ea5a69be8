// SPDX-License-Identifier: Apache-2.0
//
// Which element types a run computes with.
#pragma once

#include <string_view>

#include "tensor/dtype.h"

namespace zaya {

// f32 and bf16 are for runs. f64 and c128 exist in the reference backend only: exact values, and
// complex-step gradients.
enum class Numerics { f32, bf16, f64, c128 };

// The stream type: residual stream, master weights, gradients, statistics, router, softmax, sums.
// f32 for f32 and bf16.
DType stream_dtype(Numerics numerics);
// The compute type: operands of the large matrix products and activations between them.
DType compute_dtype(Numerics numerics);
std::string_view name_of(Numerics numerics);
// What an option means: "bf16", or "f32".
Numerics run_numerics(std::string_view name);
// Distance from 1 to the next number of a float dtype: 2^-23 for f32, 2^-7 for bf16.
double epsilon_of(DType dtype);

}  // namespace zaya
