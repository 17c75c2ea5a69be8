// SPDX-License-Identifier: Apache-2.0
//
// Perplexity over token files: all windows of all files in order, every target once.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "eval/perplexity.h"
#include "text/tokenizer.h"

namespace zaya {

struct PerplexityOptions {
  std::vector<std::string> prefixes;
  Index sequence_length = 0;
  bool isolates_documents = true;
  bool skip_is_identity = false;
};

struct PerplexityResult {
  LossSum loss;
  Index sequence_length = 0;
  // Of the texts of the targets; 0 when there is no tokenizer. Words are separated by white space.
  Index num_bytes = 0, num_words = 0;

  double token_perplexity() const { return std::exp(loss.mean()); }
  double bits_per_byte() const { return loss.sum / static_cast<double>(num_bytes) / std::log(2.0); }
  double byte_perplexity() const { return std::exp(loss.sum / static_cast<double>(num_bytes)); }
  double word_perplexity() const { return std::exp(loss.sum / static_cast<double>(num_words)); }
};

// `tokenizer` may be null. Batches have a fixed size, so the result does not depend on anything but
// model and tokens. Ends early when a stop is asked for.
PerplexityResult evaluate_perplexity(const Model& model, const Backend& backend,
                                     const Tokenizer* tokenizer, const PerplexityOptions& options);

}  // namespace zaya
