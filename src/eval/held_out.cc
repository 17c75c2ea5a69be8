// SPDX-License-Identifier: Apache-2.0
#include "eval/held_out.h"

#include <algorithm>

#include "base/progress.h"
#include "base/stop.h"

namespace zaya {

namespace {

// Fixed, so that the sums depend on nothing but model and tokens.
constexpr Index kBatchTokens = 4096;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Counts bytes and words of the targets' text; a word may reach over batches.
class TextCount {
 public:
  TextCount(const Tokenizer& tokenizer, PerplexityResult& result)
      : decoder_(tokenizer, DecodeOptions{true, true}), result_(result) {}
  void add(TokenId id) { add_text(decoder_.push(id)); }
  void end_of_row() {
    add_text(decoder_.finish());
    is_in_word_ = false;
  }

 private:
  void add_text(const std::string& text) {
    result_.num_bytes += static_cast<Index>(text.size());
    for (const char c : text) {
      const bool is_word = !is_space(c);
      result_.num_words += is_word && !is_in_word_;
      is_in_word_ = is_word;
    }
  }

  StreamDecoder decoder_;
  PerplexityResult& result_;
  bool is_in_word_ = false;
};

}  // namespace

HeldOut::HeldOut(const HeldOutOptions& o, Index model_vocabulary)
    : shards_(o.prefixes, model_vocabulary, o.tokenizer_digest) {
  if (shards_.all().empty()) return;
  PlanOptions options;
  options.order = SampleOrder::in_order;
  options.sequence_length = o.sequence_length;
  plan_ = make_plan(shards_.all(), options);
  loader_.emplace(shards_.all(), *plan_, o.isolates_documents);
  rows_per_batch_ = batch_tokens(o.sequence_length) / o.sequence_length;
  num_rows_ = plan_->samples_per_epoch();
  if (o.max_tokens > 0) {
    num_rows_ = std::min(num_rows_, (o.max_tokens + o.sequence_length - 1) / o.sequence_length);
  }
}

Index HeldOut::batch_tokens(Index sequence_length) {
  return std::max<Index>(1, kBatchTokens / sequence_length) * sequence_length;
}

const Batch& HeldOut::load(Index i) {
  const Index first = i * rows_per_batch_;
  loader_->load(first, std::min(rows_per_batch_, num_rows_ - first), batch_);
  return batch_;
}

std::optional<PerplexityResult> evaluate(HeldOut& held_out, Evaluator& evaluator,
                                         const Tokenizer* tokenizer) {
  PerplexityResult result;
  Progress progress("evaluating", Progress::Unit::items,
                    static_cast<double>(held_out.num_batches()));
  for (Index i = 0; i < held_out.num_batches(); ++i) {
    if (stop_signal() != 0) return std::nullopt;
    const Batch& batch = held_out.load(i);
    const LossSum part = evaluator.evaluate(held_out.view());
    result.loss.sum += part.sum;
    result.loss.count += part.count;
    if (tokenizer != nullptr) {
      TextCount count(*tokenizer, result);
      for (const std::int32_t target : batch.targets) {
        if (target >= 0) {
          count.add(target);
        } else {
          count.end_of_row();
        }
      }
      count.end_of_row();
    }
    progress.update(static_cast<double>(i + 1));
  }
  return result;
}

}  // namespace zaya
