// SPDX-License-Identifier: Apache-2.0
//
// Softmax bodies of attention, on tiles of scores of stacked query rows.
#pragma once

#include <cstdint>

#include "backend/backend.h"

namespace zaya {

// One tile: scores [rows, keys], rows `ld` floats apart.
struct ScoreTile {
  Index rows = 0, keys = 0, ld = 0;
  const std::int32_t* first = nullptr;  // [rows]: row r sees the keys [first[r], last[r]) ...
  const std::int32_t* last = nullptr;
  const std::uint8_t* hidden = nullptr;  // [keys] ... that are not hidden; null: none is
  float scale = 1;                       // of scores
};

struct AttentionSimd {
  // Running softmax. Scores become probabilities relative to the new maxima, zero for keys not
  // seen: f32, or bf16 from the start of each row on. maxima and sums [rows] of unscaled scores and
  // of probabilities are brought up to date, out [rows, channels] is scaled to the new maxima.
  void (*softmax)(const ScoreTile& tile, float* scores, bool to_bf16, float* maxima, float* sums,
                  float* out, Index channels);
  // scores become p = exp(scale * score - lse), dscores (dp on entry) become scale * p * (dp -
  // delta); zero for keys not seen. Result type as above. lse, delta [rows].
  void (*softmax_backward)(const ScoreTile& tile, float* scores, float* dscores, bool to_bf16,
                           const float* lse, const float* delta);
  // to = from * factor.
  void (*write_scaled)(const float* from, float factor, Index count, bool to_bf16, void* to);
  // out[r] += sum over keys j of p[r, j] * v[j]; p rows ldp apart, v rows ldv.
  void (*weigh_values)(const float* p, Index ldp, Index rows, const void* v, bool is_bf16,
                       Index ldv, Index keys, Index channels, float* out);
};

const AttentionSimd& attention_simd(InstructionSet set);

}  // namespace zaya
