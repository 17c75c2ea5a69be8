// SPDX-License-Identifier: Apache-2.0
#include "data/megatron_order.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/check.h"
#include "base/error.h"

namespace zaya {

namespace {

constexpr Index kMaxEntries = std::numeric_limits<std::int32_t>::max();
constexpr double kFinalEpochShare = 0.80;
// What Megatron adds to each source's share of a blend.
constexpr double kSurplus = 0.005;

// numpy.random.RandomState(seed): init_genrand, then 32-bit words.
class LegacyRandom {
 public:
  explicit LegacyRandom(std::uint32_t seed) : engine_(seed) {}

  // Shuffles a[begin, end).
  void shuffle(std::vector<Index>& a, Index begin, Index end) {
    for (Index i = end - begin - 1; i >= 1; --i) {
      std::swap(a[begin + i], a[begin + below_or_equal(static_cast<std::uint32_t>(i))]);
    }
  }

 private:
  std::uint32_t below_or_equal(std::uint32_t most) {
    std::uint32_t mask = most;
    for (int shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
    std::uint32_t value;
    do {
      value = static_cast<std::uint32_t>(engine_()) & mask;
    } while (value > most);
    return value;
  }

  std::mt19937 engine_;
};

std::vector<MegatronOrder::Start> cut_samples(const TokenIndex& index,
                                              const std::vector<Index>& document_order,
                                              Index sequence_length, Index num_samples) {
  std::vector<MegatronOrder::Start> samples;
  samples.reserve(static_cast<std::size_t>(num_samples + 1));
  Index place = 0, before = 0;  // tokens before that place
  for (Index i = 0; i <= num_samples; ++i) {
    const Index at = i * sequence_length;
    while (before + index.length(document_order[place]) <= at) {
      before += index.length(document_order[place++]);
    }
    samples.push_back({place, at - before});
  }
  return samples;
}

}  // namespace

MegatronOrder build_megatron_order(const TokenIndex& index, const MegatronOrderArgs& args) {
  const Index length = args.sequence_length;
  Index per_epoch = 0;
  for (const Index s : args.sequences) per_epoch += index.length(s);
  MegatronOrder order;
  if (args.wanted_samples && per_epoch > 0) {
    order.num_epochs = std::max<Index>(1, (*args.wanted_samples * length + per_epoch) / per_epoch);
  }
  const Index count = static_cast<Index>(args.sequences.size());
  const Index epochs = order.num_epochs;
  const Index num_samples = per_epoch > 0 ? (epochs * per_epoch - 1) / length : 0;
  if (num_samples < 1) {
    throw Error{ErrorKind::usage,
                fmt::format("data.order = megatron: {} tokens give no sample of {} tokens; use "
                            "data.order = shuffled, or a shorter sequence_length",
                            per_epoch, length)};
  }
  if (num_samples > kMaxEntries || count > kMaxEntries / epochs) {
    throw Error{ErrorKind::usage,
                "data.order = megatron: more samples or documents than its tables hold "
                "(2147483647); use data.order = shuffled"};
  }
  Index first_part = num_samples;
  if (epochs > 1 && args.wanted_samples) {
    first_part = ((epochs - 1) * per_epoch - 1) / length;
    const Index last = *args.wanted_samples - first_part;
    const Index whole = (per_epoch - 1) / length;
    order.has_separate_final_epoch =
        last < static_cast<Index>(kFinalEpochShare * static_cast<double>(whole));
  }
  LegacyRandom random(args.seed);
  for (Index e = 0; e < epochs; ++e) {
    order.document_order.insert(order.document_order.end(), args.sequences.begin(),
                                args.sequences.end());
  }
  const Index last_epoch = order.has_separate_final_epoch ? (epochs - 1) * count : epochs * count;
  random.shuffle(order.document_order, 0, last_epoch);
  random.shuffle(order.document_order, last_epoch, epochs * count);
  order.samples = cut_samples(index, order.document_order, length, num_samples);
  order.shuffle.resize(static_cast<std::size_t>(num_samples));
  std::iota(order.shuffle.begin(), order.shuffle.end(), Index{0});
  const Index last_sample = order.has_separate_final_epoch ? first_part : num_samples;
  random.shuffle(order.shuffle, 0, last_sample);
  random.shuffle(order.shuffle, last_sample, num_samples);
  return order;
}

std::vector<std::pair<int, Index>> megatron_blend(const std::vector<double>& weights, Index count) {
  std::vector<std::pair<int, Index>> picks;
  picks.reserve(static_cast<std::size_t>(count));
  std::vector<Index> taken(weights.size(), 0);
  for (Index k = 0; k < count; ++k) {
    const double scale = std::max(static_cast<double>(k), 1.0);
    int best = 0;
    double best_lag = weights[0] * scale - static_cast<double>(taken[0]);
    for (int i = 1; i < static_cast<int>(weights.size()); ++i) {
      const double lag = weights[i] * scale - static_cast<double>(taken[i]);
      if (lag > best_lag) {
        best = i;
        best_lag = lag;
      }
    }
    picks.emplace_back(best, taken[best]++);
  }
  return picks;
}

std::vector<std::pair<Index, Index>> megatron_split(const std::vector<double>& shares,
                                                    Index num_documents) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  ZAYA_CHECK(sum > 0, "no share");
  std::vector<std::pair<Index, Index>> ranges;
  double cumulated = 0;
  Index begin = 0;
  for (const double share : shares) {
    cumulated += share / sum;
    // The current rounding mode is to nearest, ties to even.
    const Index end =
        static_cast<Index>(std::nearbyint(cumulated * static_cast<double>(num_documents)));
    ranges.emplace_back(begin, end);
    begin = end;
  }
  return ranges;
}

namespace {

class MegatronPlan : public SamplePlan {
 public:
  MegatronPlan(const std::vector<const Shard*>& sources, const PlanOptions& options)
      : sequence_length_(options.sequence_length) {
    const std::vector<double> weights = normalized_weights(sources, options);
    const Index wanted = std::max<Index>(options.wanted_samples, 1);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      indices_.push_back(&sources[i]->index());
      orders_.emplace_back();
      if (weights[i] <= 0) continue;
      MegatronOrderArgs args;
      const auto [begin, end] = training_range(*indices_[i], options);
      args.sequences.resize(static_cast<std::size_t>(end - begin));
      std::iota(args.sequences.begin(), args.sequences.end(), begin);
      args.sequence_length = options.sequence_length;
      args.seed = static_cast<std::uint32_t>(options.seed);
      args.wanted_samples = sources.size() == 1 ? wanted : share_of(wanted, weights[i]);
      orders_[i] = build_megatron_order(*indices_[i], args);
    }
    if (sources.size() > 1) blend_ = megatron_blend(weights, wanted);
  }

  Sample at(Index k) const override {
    ZAYA_CHECK(k >= 0);
    Sample sample;
    if (!blend_.empty()) {
      const Index size = static_cast<Index>(blend_.size());
      const auto& [source, number] = blend_[k % size];
      sample.source = source;
      // The blend as a whole begins again when its samples are used up.
      sample.epoch = k / size;
      k = number;
    }
    const MegatronOrder& order = orders_[sample.source];
    const Index size = static_cast<Index>(order.shuffle.size());
    sample.epoch += k / size;
    sample.number = order.shuffle[k % size];
    return sample;
  }

  void append_pieces(const Sample& sample, std::vector<Piece>& pieces) const override {
    const MegatronOrder& order = orders_[sample.source];
    MegatronOrder::Start start = order.samples[sample.number];
    for (Index wanted = sequence_length_ + 1; wanted > 0; ++start.place, start.offset = 0) {
      const Index sequence = order.document_order[start.place];
      const Index end = std::min(start.offset + wanted, indices_[sample.source]->length(sequence));
      if (end > start.offset) pieces.push_back({sequence, start.offset, end});
      wanted -= end - start.offset;
    }
  }

  Index samples_per_epoch() const override {
    Index count = 0;
    for (const MegatronOrder& order : orders_) {
      count += static_cast<Index>(order.shuffle.size()) / order.num_epochs;
    }
    return std::max<Index>(count, 1);
  }

  Index sequence_length() const override { return sequence_length_; }

 private:
  static Index share_of(Index wanted, double weight) {
    return static_cast<Index>(
        std::ceil(std::ceil(static_cast<double>(wanted) * weight) * (1 + kSurplus)));
  }
  // Sequences to train on. Megatron counts sequences here, though it calls them documents.
  static std::pair<Index, Index> training_range(const TokenIndex& index,
                                                const PlanOptions& options) {
    if (options.split.empty()) return {0, index.num_sequences()};
    return megatron_split(options.split, index.num_sequences()).front();
  }
  static std::vector<double> normalized_weights(const std::vector<const Shard*>& sources,
                                                const PlanOptions& options) {
    std::vector<double> weights = options.weights;
    for (std::size_t i = 0; options.weights.empty() && i < sources.size(); ++i) {
      const TokenIndex& index = sources[i]->index();
      const auto [begin, end] = training_range(index, options);
      Index num_tokens = 0;
      for (Index s = begin; s < end; ++s) num_tokens += index.length(s);
      weights.push_back(static_cast<double>(num_tokens));
    }
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& weight : weights) weight /= sum;
    return weights;
  }

  Index sequence_length_;
  std::vector<const TokenIndex*> indices_;
  std::vector<MegatronOrder> orders_;         // empty for a source of weight 0
  std::vector<std::pair<int, Index>> blend_;  // empty with one source
};

}  // namespace

std::unique_ptr<SamplePlan> make_megatron_plan(const std::vector<const Shard*>& sources,
                                               const PlanOptions& options) {
  if (options.seed > std::numeric_limits<std::uint32_t>::max()) {
    throw Error{ErrorKind::usage,
                fmt::format("data.order = megatron takes a run.seed below 4294967296, not {}",
                            options.seed)};
  }
  return std::make_unique<MegatronPlan>(sources, options);
}

}  // namespace zaya
