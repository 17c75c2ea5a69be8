// SPDX-License-Identifier: Apache-2.0
//
// Loss, log-probabilities, hidden states, routes and gradients of given rows: what `zaya score`
// prints and other programs compare against.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model.h"

namespace zaya {

struct ScoreInput {
  Index rows = 0, length = 0;        // [B, S]
  std::vector<std::int32_t> ids;     // B * S
  std::vector<std::uint8_t> mask;    // B * S, 0 = padding; empty = none
  std::vector<std::int64_t> labels;  // B * S, -100 = ignored; empty = made from ids and mask
};

// Labels when none are given: the ids, with -100 at padding and at the first real token after left
// padding (a padding position would predict it).
std::vector<std::int64_t> default_labels(const ScoreInput& input);

struct NamedOutput {
  std::string name;
  std::vector<Index> shape;
  std::vector<float> values;
  std::vector<std::int64_t> integers;  // instead of values where the output is I64
};

struct ScoreResult {
  double loss = 0;       // mean over tokens with a target; 0 when there is none
  Index num_tokens = 0;  // tokens with a target
  // [B][S-1]: log p(x[t+1]); NaN where ignored.
  std::vector<std::vector<double>> token_logprobs;
  std::vector<NamedOutput> dump;  // logits, hidden.i, hidden.final, router.i.{choice,probs,weight}
};

struct ScoreOptions {
  bool wants_dump = false;
  bool skip_is_identity = false;
};

// Checks ids against the vocabulary: Error{usage} naming row and position.
void check_score_input(const ScoreInput& input, Index vocab_size);

// `gradients` (zeroed by the caller) gets the gradient of the mean loss, unless null. The model is
// bound, with rotary tables for at least `length` positions.
ScoreResult score(const Model& model, const Backend& backend, const ScoreInput& input,
                  const ScoreOptions& options, const Gradients* gradients);

}  // namespace zaya
