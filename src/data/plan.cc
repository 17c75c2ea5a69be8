// SPDX-License-Identifier: Apache-2.0
#include "data/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/rng.h"
#include "data/megatron_order.h"
#include "data/mixture.h"

namespace zaya {

namespace {

// Windows of consecutive sources that are shuffled together.
struct Pool {
  int first_source = 0;
  std::vector<Index> ends;  // windows of the pool up to and with each of its sources
  Index size() const { return ends.back(); }
};

class WindowPlan : public SamplePlan {
 public:
  WindowPlan(const std::vector<const Shard*>& sources, const PlanOptions& options)
      : options_(options) {
    for (const Shard* shard : sources) streams_.emplace_back(shard->index());
    for (int i = 0; i < static_cast<int>(streams_.size()); ++i) {
      const bool begins_pool = i == 0 || !options.weights.empty();
      if (begins_pool) pools_.push_back({i, {}});
      const Index before = begins_pool ? 0 : pools_.back().size();
      pools_.back().ends.push_back(before + num_windows(i));
    }
    if (pools_.size() > 1) mixture_ = std::make_unique<Mixture>(options.weights);
  }

  Sample at(Index k) const override {
    ZAYA_CHECK(k >= 0);
    int pool_number = 0;
    if (mixture_) {
      const Mixture::Pick pick = mixture_->at(k);
      pool_number = pick.source;
      k = pick.number;
    }
    const Pool& pool = pools_[pool_number];
    Sample sample;
    sample.epoch = k / pool.size();
    Index place = k % pool.size();
    if (options_.order == SampleOrder::shuffled) {
      const std::string name =
          fmt::format("sample order {} {} {}", options_.stream, pool_number, sample.epoch);
      place = Permutation(options_.seed, name, pool.size())(place);
    }
    const auto source = std::upper_bound(pool.ends.begin(), pool.ends.end(), place);
    sample.source = pool.first_source + static_cast<int>(source - pool.ends.begin());
    sample.number = source == pool.ends.begin() ? place : place - *(source - 1);
    return sample;
  }

  void append_pieces(const Sample& sample, std::vector<Piece>& pieces) const override {
    const TokenStream& stream = streams_[sample.source];
    const Index begin = sample.number * options_.sequence_length;
    const Index end = std::min(begin + options_.sequence_length + 1, stream.num_tokens());
    stream.append_pieces(begin, end, pieces);
  }

  Index samples_per_epoch() const override {
    Index count = 0;
    for (const Pool& pool : pools_) count += pool.size();
    return count;
  }

  Index sequence_length() const override { return options_.sequence_length; }

  Index num_windows(int source) const {
    const Index targets = streams_[source].num_tokens() - 1;
    return targets <= 0 ? 0 : (targets - 1) / options_.sequence_length + 1;
  }

 private:
  PlanOptions options_;
  std::vector<TokenStream> streams_;
  std::vector<Pool> pools_;
  std::unique_ptr<Mixture> mixture_;  // none with one pool
};

void check_weights(const std::vector<const Shard*>& sources, const std::vector<double>& weights) {
  if (weights.empty()) return;
  if (weights.size() != sources.size()) {
    throw Error{ErrorKind::usage,
                fmt::format("data.weights has {} entries for {} token files in data.train; give "
                            "one each, or none to count by size",
                            weights.size(), sources.size())};
  }
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0 && weights[i] <= 1e100)) {
      throw Error{
          ErrorKind::usage,
          fmt::format("data.weights: entry {} is {}; weights are 0 or more", i, weights[i])};
    }
    if (weights[i] > 0 && sources[i]->index().num_tokens() < 2) {
      throw Error{ErrorKind::usage,
                  fmt::format("{}: has weight {} but only {} tokens, a sample takes two; leave it "
                              "out",
                              sources[i]->prefix(), weights[i], sources[i]->index().num_tokens())};
    }
    sum += weights[i];
  }
  if (sum <= 0) throw Error{ErrorKind::usage, "data.weights: all are 0; nothing to train on"};
}

}  // namespace

std::unique_ptr<SamplePlan> make_plan(const std::vector<const Shard*>& sources,
                                      const PlanOptions& options) {
  ZAYA_CHECK(options.sequence_length >= 1);
  check_weights(sources, options.weights);
  const bool has_window = std::any_of(sources.begin(), sources.end(), [](const Shard* shard) {
    return shard->index().num_tokens() >= 2;
  });
  if (!has_window) {
    throw Error{ErrorKind::usage,
                fmt::format("{}: no text to train on: a sample takes two tokens",
                            sources.empty() ? "data.train" : sources.front()->prefix())};
  }
  ZAYA_CHECK(options.split.empty() || options.order == SampleOrder::megatron);
  if (options.order == SampleOrder::megatron) return make_megatron_plan(sources, options);
  return std::make_unique<WindowPlan>(sources, options);
}

Index targets_per_epoch(const TokenIndex& index, bool isolates_documents) {
  if (isolates_documents) return index.num_tokens() - index.num_filled_documents();
  return std::max<Index>(index.num_tokens() - 1, 0);
}

}  // namespace zaya
