// SPDX-License-Identifier: Apache-2.0
//
// Row bodies of the convolutions, for the C channels of one head. Rows of activations are f32 or
// bf16 as is_bf16 says.
#pragma once

#include "backend/backend.h"

namespace zaya {

struct ConvolveSimd {
  // out[c] = bias[c] + sum over taps j of w[j, c] * rows[j][c]; a null row is zero.
  void (*depthwise_row)(const void* const* rows, const float* w, const float* bias, Index taps,
                        Index channels, bool is_bf16, void* out);
  // out[c] = sum over parts of part[c] in order.
  void (*sum_parts)(const void* const* parts, Index num_parts, Index channels, bool is_bf16,
                    float* out);
  // out[c] += sum over taps j of w[j, c] * rows[j][c]; a null row is zero.
  void (*add_taps)(const float* const* rows, const float* w, Index taps, Index channels,
                   bool is_bf16, void* out);
  // sums[c] += a[c] * b[c].
  void (*add_products)(const float* a, const void* b, Index channels, bool is_bf16, float* sums);
};

const ConvolveSimd& convolve_simd(InstructionSet set);

}  // namespace zaya
