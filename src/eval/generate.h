// SPDX-License-Identifier: Apache-2.0
//
// Continuation of prompts: prefill in one pass (long prompts in chunks), then one token at a time
// per sequence with cached keys, values and convolution history.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "eval/sampler.h"
#include "model/forecast.h"

namespace zaya {

struct GenerateOptions {
  SamplerOptions sampler;
  Index max_new_tokens = 200;
  std::vector<std::int32_t> stop_ids;  // end a sequence; the id itself is part of the result
  // Ids from here on are never sampled (rows of the table that no token uses); 0 = whole table.
  Index vocabulary_limit = 0;
  bool skip_is_identity = false;
};

struct Prompt {
  std::vector<std::int32_t> ids;  // at least one
  Index left_padding = 0;         // leading ids that are padding
};

class Generator {
 public:
  // Called for each new token; false stops that sequence.
  using OnToken = FunctionRef<bool(Index sequence, std::int32_t id)>;

  // Room for `sequences` sequences of `capacity` tokens each, prompt included. The model is bound
  // with rotary tables for at least `capacity` positions.
  Generator(const Model& model, const Backend& backend, Index sequences, Index capacity);

  // Continues each prompt until a stop id, max_new_tokens or the capacity. Returns the new tokens
  // of each. Sequence i is sampled with draws numbered by (i, position), so its text depends
  // neither on the other prompts nor on their number.
  std::vector<std::vector<std::int32_t>> generate(std::span<const Prompt> prompts,
                                                  const GenerateOptions& options, OnToken on_token);

  // Next-token logits [V] after feeding `tokens` to sequence `row` (tests, stepwise use).
  std::vector<float> feed(Index row, std::span<const std::int32_t> tokens,
                          const GenerateOptions& options, Index left_padding = 0);
  // Bytes that a Generator takes.
  static Index bytes(const ModelConfig& config, Numerics numerics, Index sequences, Index capacity);
  const DecodeState& state() const { return *state_; }
  // Tokens per block and class of the last pass, [L, E+1] i64, skip last.
  ConstTensor loads() const { return loads_; }
  void reset(Index row) { state_->reset(row); }

 private:
  Generator(const Model& model, const Backend& backend, Index sequences, Index capacity,
            const PassForecast& pass);
  // One pass over the next tokens of some sequences; logits of the last token of each.
  void run_pass(std::span<const Index> rows, std::span<const std::vector<std::int32_t>> tokens,
                std::span<const Index> first_key, std::span<const std::uint8_t> padding,
                const GenerateOptions& options);
  std::span<const float> logits_of(Index i) const;

  const Model& model_;
  const Backend& backend_;
  Index max_pass_tokens_;
  Arena keep_, saved_, scratch_;
  std::unique_ptr<DecodeState> state_;
  Tensor logits_;  // [sequences, V] stream type
  Tensor loads_;
};

}  // namespace zaya
