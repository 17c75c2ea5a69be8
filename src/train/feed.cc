// SPDX-License-Identifier: Apache-2.0
#include "train/feed.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "base/error.h"
#include "data/fingerprint.h"
#include "data/loader.h"
#include "text/tokenizer.h"
#include "train/start.h"

namespace zaya {

namespace {

// Micro-batches that the reading thread prepares ahead of the one in use.
constexpr Index kPrefetchDepth = 3;
// Positions of one held-out batch: fixed, so that the sums do not depend on the training batch.
constexpr Index kHeldOutTokens = 4096;

template <class T>
ConstTensor tensor_over(const std::vector<T>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()), dtype_of<T>,
          Shape{static_cast<Index>(values.size())}};
}

// A data batch as kernels see it. The arrays stay in the batch; segments and spans live here.
class BatchView {
 public:
  const MicroBatch& assign(const Batch& batch) {
    segments_.clear();
    spans_.clear();
    for (const BatchSegment& segment : batch.segments) {
      segments_.push_back({segment.begin, segment.end, -1});
      if (!segment.is_padding) {
        spans_.push_back({segment.begin, segment.end, segment.begin, segment.end});
      }
    }
    micro_.batch.ids = tensor_over(batch.ids);
    micro_.batch.targets = tensor_over(batch.targets);
    micro_.batch.positions = tensor_over(batch.positions);
    micro_.batch.segments = segments_;
    micro_.batch.spans = spans_;
    micro_.num_targets = batch.num_targets;
    return micro_;
  }
  const MicroBatch& get() const { return micro_; }

 private:
  std::vector<Segment> segments_;
  std::vector<AttentionSpan> spans_;
  MicroBatch micro_;
};

// The token files of a run, opened and checked.
class Shards {
 public:
  Shards(const std::vector<std::string>& prefixes, const TrainConfig& config) {
    std::string digest;
    if (!config.data.tokenizer.empty()) {
      digest = digest_text(Tokenizer::load(config.data.tokenizer).digest());
    }
    for (const std::string& prefix : prefixes) {
      const Shard& shard = shards_.emplace_back(prefix);
      check_usable(shard, config.model.vocab_size, digest);
      pointers_.push_back(&shard);
    }
  }
  const std::vector<const Shard*>& all() const { return pointers_; }

 private:
  std::deque<Shard> shards_;
  std::vector<const Shard*> pointers_;
};

SampleOrder order_of(const TrainConfig& config) {
  return config.data.order == "megatron" ? SampleOrder::megatron : SampleOrder::shuffled;
}

}  // namespace

struct Feed::State {
  const TrainConfig& config;
  Shards shards;
  std::unique_ptr<SamplePlan> plan;
  std::optional<SampleLoader> loader;
  std::unique_ptr<Prefetcher> prefetcher;  // last: its thread uses the loader
  BatchView view;
  std::string last;

  explicit State(const TrainConfig& c) : config(c), shards(c.data.train, c) {}
};

Feed::Feed(const TrainConfig& config) : state_(std::make_unique<State>(config)) {}

Feed::~Feed() = default;

void Feed::begin(Index phase, Index first_row) {
  State& s = *state_;
  const PhaseOptions& options = s.config.phases[phase];
  s.prefetcher.reset();
  PlanOptions plan;
  plan.order = order_of(s.config);
  plan.sequence_length = options.sequence_length;
  plan.weights = s.config.data.weights;
  plan.seed = static_cast<std::uint64_t>(s.config.run.seed);
  plan.stream = phase;
  plan.wanted_samples = (options.tokens + options.batch_tokens - 1) / options.batch_tokens *
                        (options.batch_tokens / options.sequence_length);
  s.plan = make_plan(s.shards.all(), plan);
  s.loader.emplace(s.shards.all(), *s.plan, s.config.data.document_isolation);
  const Index rows = micro_batch_tokens(options, s.config.parallel) / options.sequence_length;
  s.prefetcher = std::make_unique<Prefetcher>(
      [loader = &*s.loader, first_row, rows](Index k, Prefetcher::Request& request) {
        request = {loader, first_row + k * rows, rows};
        return true;
      },
      kPrefetchDepth);
}

const MicroBatch& Feed::next() {
  const Batch* batch = state_->prefetcher->next();
  ZAYA_CHECK(batch != nullptr);
  state_->last =
      fmt::format("{} to {}", batch->first_sample, batch->first_sample + batch->rows - 1);
  return state_->view.assign(*batch);
}

double Feed::take_wait_seconds() {
  return state_->prefetcher ? state_->prefetcher->take_wait_seconds() : 0;
}

std::string Feed::describe_last() const { return state_->last; }

std::string Feed::fingerprint() const { return data_fingerprint(state_->shards.all()); }

Index Feed::num_tokens() const {
  Index sum = 0;
  for (const Shard* shard : state_->shards.all()) sum += shard->index().num_tokens();
  return sum;
}

Index Feed::num_documents() const {
  Index sum = 0;
  for (const Shard* shard : state_->shards.all()) sum += shard->index().num_documents();
  return sum;
}

struct HeldOut::State {
  Shards shards;
  Index rows_per_batch = 1, num_rows = 0, length = 0;
  std::unique_ptr<SamplePlan> plan;
  std::optional<SampleLoader> loader;
  Batch batch;
  BatchView view;

  explicit State(const TrainConfig& c) : shards(c.data.validation, c) {
    if (shards.all().empty()) return;
    for (const PhaseOptions& phase : c.phases) length = std::max(length, phase.sequence_length);
    PlanOptions options;
    options.order = SampleOrder::in_order;
    options.sequence_length = length;
    plan = make_plan(shards.all(), options);
    loader.emplace(shards.all(), *plan, c.data.document_isolation);
    num_rows = plan->samples_per_epoch();
    if (c.metrics.validation_tokens > 0) {
      num_rows = std::min(num_rows, (c.metrics.validation_tokens + length - 1) / length);
    }
    rows_per_batch = std::max<Index>(1, std::min(num_rows, kHeldOutTokens / length));
  }
};

HeldOut::HeldOut(const TrainConfig& config) : state_(std::make_unique<State>(config)) {}

HeldOut::~HeldOut() = default;

Index HeldOut::num_batches() const {
  return (state_->num_rows + state_->rows_per_batch - 1) / state_->rows_per_batch;
}

Index HeldOut::max_batch_tokens() const { return state_->rows_per_batch * state_->length; }

const MicroBatch& HeldOut::batch(Index i) {
  State& s = *state_;
  const Index first = i * s.rows_per_batch;
  s.loader->load(first, std::min(s.rows_per_batch, s.num_rows - first), s.batch);
  return s.view.assign(s.batch);
}

}  // namespace zaya
