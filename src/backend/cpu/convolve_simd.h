// SPDX-License-Identifier: Apache-2.0
//
// Row bodies of the convolutions. Rows of activations are f32 or bf16 as is_bf16 says; heads of C
// channels stand `head_stride` apart where a row has gaps between heads.
#pragma once

#include "backend/backend.h"

namespace zaya {

struct ConvolveSimd {
  // out[n, i] = bias[n*C + i] + sum over taps j of w[j][n*C + i] * rows[j][n*C + i]; a null row is
  // zero. out has gaps between heads.
  void (*depthwise_row)(const void* const* rows, const float* w, const float* bias, Index taps,
                        Index heads, Index channels, bool is_bf16, void* out, Index head_stride);
  // out[n*C + i] = sum over parts of part[n, i] in order; parts have gaps between heads.
  void (*sum_parts)(const void* const* parts, Index num_parts, Index heads, Index channels,
                    Index head_stride, bool is_bf16, float* out);
  // out[c] += sum over taps j of w[j][c] * rows[j][c]; a null row is zero.
  void (*add_taps)(const float* const* rows, const float* w, Index taps, Index width, bool is_bf16,
                   void* out);
  // sums[c] += a[c] * b[c].
  void (*add_products)(const float* a, const void* b, Index width, bool is_bf16, float* sums);
  // sums[c] += a[c].
  void (*add_to)(const float* a, Index width, float* sums);
};

const ConvolveSimd& convolve_simd(InstructionSet set);

}  // namespace zaya
