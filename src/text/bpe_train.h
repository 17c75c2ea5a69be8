// SPDX-License-Identifier: Apache-2.0
//
// Training of byte-level byte-pair tokenizers: again and again the most frequent pair of
// neighbouring symbols within words becomes a token.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/thread_pool.h"
#include "base/types.h"
#include "text/vocabulary.h"
#include "text/word_counts.h"

namespace zaya {

struct BpeTrainOptions {
  Index vocabulary_size = 32768;  // special tokens and the 256 bytes included
  Index min_count = 2;            // rarer pairs are not merged
  std::string end_of_text = "<|endoftext|>";
  std::string padding = "<|padding|>";
  std::vector<std::string> more_special = {"<|im_start|>", "<|im_end|>"};
  WordCounterOptions counting;
};

struct TrainedBpe {
  std::string end_of_text, padding;
  Index num_special = 0;
  // Contents in byte letters; the index is the id. First the special tokens (end of text is 0,
  // padding 1), then the 256 bytes in the order of their letters, then what merges made.
  std::vector<std::string> tokens;
  std::vector<std::pair<TokenId, TokenId>> merges;
  // What the texts held, without the words themselves.
  WordCounter::Result counts;
};

// Sets `text` to the next document, valid until the next call; false at the end.
using TextSource = FunctionRef<bool(std::string_view& text)>;

// Special tokens in the texts are text like any other. Pairs of equal count merge in the order of
// their ids, so that the result depends on the texts alone: not on threads, and not on the order of
// the documents unless words were forgotten (counts.forgotten_below). Fewer tokens than asked for
// come out when no pair is left. Throws Error{usage} for impossible options; gives nothing when a
// stop signal arrived.
std::optional<TrainedBpe> train_bpe(const BpeTrainOptions& options, TextSource source,
                                    ThreadPool& pool);

// The text of tokenizer.json, which the Hugging Face library loads, and of tokenizer_config.json.
std::string tokenizer_json(const TrainedBpe& trained);
std::string tokenizer_config_json(const TrainedBpe& trained);

}  // namespace zaya
