// SPDX-License-Identifier: Apache-2.0
//
// Choice of the next token from logits: a pure function of logits, earlier tokens, options and a
// counter, so that the same seed gives the same text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace zaya {

struct SamplerOptions {
  double temperature = 1;         // 0: the largest logit, lowest id on a tie
  Index top_k = 0;                // keep the k most likely; 0 = all
  double top_p = 1;               // keep the fewest tokens whose probabilities reach p
  double min_p = 0;               // drop tokens below min_p times the largest probability
  double repetition_penalty = 1;  // divide positive, multiply negative logits of seen tokens
  std::uint64_t seed = 1;
};

// Samples among the first `logits.size()` ids. `seen` are the tokens so far (prompt and result).
// `sequence` and `position` number the draw. Order of the filters: penalty, temperature, top-k,
// top-p, min-p. NaN logits are never chosen. `scratch` keeps memory between calls.
std::int32_t sample_token(std::span<const float> logits, std::span<const std::int32_t> seen,
                          const SamplerOptions& options, Index sequence, Index position,
                          std::vector<float>& scratch);

}  // namespace zaya
