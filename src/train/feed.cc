// SPDX-License-Identifier: Apache-2.0
#include "train/feed.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/fingerprint.h"
#include "data/loader.h"
#include "data/shard_set.h"
#include "eval/batch_view.h"
#include "train/start.h"

namespace zaya {

namespace {

// Micro-batches that the reading thread prepares ahead of the one in use.
constexpr Index kPrefetchDepth = 3;

SampleOrder order_of(const TrainConfig& config) {
  return config.data.order == "megatron" ? SampleOrder::megatron : SampleOrder::shuffled;
}

// The clock of a phase is its targets: a run without any would go on for ever.
void check_has_targets(const TrainConfig& config, const std::vector<const Shard*>& shards) {
  if (!config.data.document_isolation) return;
  Index targets = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const bool is_used = config.data.weights.empty() || config.data.weights[i] > 0;
    if (is_used) targets += targets_per_epoch(shards[i]->index(), true);
  }
  if (targets > 0) return;
  throw Error{ErrorKind::usage,
              "data.train: nothing to predict, as no document has a second token; prepare longer "
              "documents, or set data.document_isolation=false"};
}

}  // namespace

struct Feed::State {
  const TrainConfig& config;
  ShardSet shards;
  std::unique_ptr<SamplePlan> plan;
  std::optional<SampleLoader> loader;
  std::unique_ptr<Prefetcher> prefetcher;  // last: its thread uses the loader
  BatchView view;
  MicroBatch micro;
  std::string last;

  explicit State(const TrainConfig& c)
      : config(c), shards(c.data.train, c.model.vocab_size, tokenizer_digest(c)) {}
};

Feed::Feed(const TrainConfig& config) : state_(std::make_unique<State>(config)) {
  check_has_targets(config, state_->shards.all());
}

Feed::~Feed() = default;

void Feed::begin(Index phase, Index first_row) {
  State& s = *state_;
  const PhaseOptions& options = s.config.phases[phase];
  s.prefetcher.reset();
  PlanOptions plan;
  plan.order = order_of(s.config);
  plan.sequence_length = options.sequence_length;
  plan.weights = s.config.data.weights;
  plan.split = s.config.data.split;
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
  state_->micro = {state_->view.assign(*batch), batch->num_targets, batch};
  return state_->micro;
}

double Feed::take_wait_seconds() {
  return state_->prefetcher ? state_->prefetcher->take_wait_seconds() : 0;
}

std::string Feed::describe_last() const { return state_->last; }

std::string Feed::fingerprint() const { return data_fingerprint(state_->shards.all()); }

void Feed::check_unchanged(const std::string& saved_fingerprint) const {
  check_data_unchanged(saved_fingerprint, state_->shards.all());
}

}  // namespace zaya
