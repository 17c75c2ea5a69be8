// SPDX-License-Identifier: Apache-2.0
//
// Held-out token files: all windows of all files in order, every target once, in batches of a fixed
// size. A run's validation loss and `zaya eval perplexity` are the same sum.
#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "data/shard_set.h"
#include "eval/batch_view.h"
#include "eval/perplexity.h"
#include "text/tokenizer.h"

namespace zaya {

struct HeldOutOptions {
  std::vector<std::string> prefixes;
  std::string tokenizer_digest;  // "": not compared with what made the files
  Index sequence_length = 0;
  bool isolates_documents = true;
  Index max_tokens = 0;  // the first windows that hold so many positions; 0 = all
};

// The same batches in the same order at every evaluation.
class HeldOut {
 public:
  // Without prefixes the set is empty.
  HeldOut(const HeldOutOptions& options, Index model_vocabulary);

  Index num_batches() const { return (num_rows_ + rows_per_batch_ - 1) / rows_per_batch_; }
  // Valid until the next call.
  const Batch& load(Index i);
  const TokenBatch& view() { return view_.assign(batch_); }

  // Positions of a full batch: what an Evaluator must have room for.
  static Index batch_tokens(Index sequence_length);

 private:
  ShardSet shards_;
  Index rows_per_batch_ = 1, num_rows_ = 0;
  std::unique_ptr<SamplePlan> plan_;
  std::optional<SampleLoader> loader_;
  Batch batch_;
  BatchView view_;
};

struct PerplexityResult {
  LossSum loss;
  // Of the texts of the targets; 0 when there is no tokenizer. Words are separated by white space.
  Index num_bytes = 0, num_words = 0;

  double token_perplexity() const { return std::exp(loss.mean()); }
  double bits_per_byte() const { return loss.sum / static_cast<double>(num_bytes) / std::log(2.0); }
  double byte_perplexity() const { return std::exp(loss.sum / static_cast<double>(num_bytes)); }
  double word_perplexity() const { return std::exp(loss.sum / static_cast<double>(num_words)); }
};

// Nothing when a stop was asked for meanwhile. `tokenizer` may be null.
std::optional<PerplexityResult> evaluate(HeldOut& held_out, Evaluator& evaluator,
                                         const Tokenizer* tokenizer);

}  // namespace zaya
