// SPDX-License-Identifier: Apache-2.0
#include "eval/held_out.h"

#include <algorithm>
#include <deque>

#include "base/progress.h"
#include "base/stop.h"
#include "data/loader.h"

namespace zaya {

namespace {

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

template <class T>
ConstTensor tensor_over(const std::vector<T>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()), dtype_of<T>,
          Shape{static_cast<Index>(values.size())}};
}

}  // namespace

PerplexityResult evaluate_perplexity(const Model& model, const Backend& backend,
                                     const Tokenizer* tokenizer, const PerplexityOptions& o) {
  std::deque<Shard> shards;
  std::vector<const Shard*> sources;
  const std::string digest = tokenizer == nullptr ? "" : digest_text(tokenizer->digest());
  for (const std::string& prefix : o.prefixes) {
    const Shard& shard = shards.emplace_back(prefix);
    check_usable(shard, model.config().vocab_size, digest);
    sources.push_back(&shard);
  }
  PlanOptions plan_options;
  plan_options.order = SampleOrder::in_order;
  plan_options.sequence_length = o.sequence_length;
  const std::unique_ptr<SamplePlan> plan = make_plan(sources, plan_options);
  const SampleLoader loader(sources, *plan, o.isolates_documents);
  const Index rows_per_batch = std::max<Index>(1, kBatchTokens / o.sequence_length);
  Evaluator evaluator(model, backend, rows_per_batch * o.sequence_length, o.skip_is_identity);

  PerplexityResult result;
  result.sequence_length = o.sequence_length;
  Batch batch;
  const Index rows = plan->samples_per_epoch();
  Progress progress("evaluating", Progress::Unit::items, static_cast<double>(rows));
  for (Index row = 0; row < rows && stop_signal() == 0; row += rows_per_batch) {
    loader.load(row, std::min(rows_per_batch, rows - row), batch);
    std::vector<Segment> segments;
    std::vector<AttentionSpan> spans;
    for (const BatchSegment& segment : batch.segments) {
      segments.push_back({segment.begin, segment.end, -1});
      if (!segment.is_padding) {
        spans.push_back({segment.begin, segment.end, segment.begin, segment.end});
      }
    }
    TokenBatch tokens{tensor_over(batch.ids),
                      tensor_over(batch.targets),
                      tensor_over(batch.positions),
                      ConstTensor{},
                      segments,
                      spans};
    const LossSum part = evaluator.evaluate(tokens);
    result.loss.sum += part.sum;
    result.loss.count += part.count;
    if (tokenizer != nullptr) {
      TextCount count(*tokenizer, result);
      for (std::size_t t = 0; t < batch.targets.size(); ++t) {
        if (batch.targets[t] >= 0) {
          count.add(batch.targets[t]);
        } else {
          count.end_of_row();
        }
      }
      count.end_of_row();
    }
    progress.update(static_cast<double>(row));
  }
  return result;
}

}  // namespace zaya
