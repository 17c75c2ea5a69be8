// SPDX-License-Identifier: Apache-2.0
#include "data/plan.h"

#include <doctest/doctest.h>

#include <cmath>
#include <deque>
#include <map>
#include <set>

#include "base/rng.h"
#include "data/mixture.h"
#include "data/testing.h"

namespace zaya {

namespace {

// Sources with the given numbers of tokens, two documents each.
struct Sources {
  explicit Sources(const std::vector<int>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::vector<int> lengths = {sizes[i] / 3, sizes[i] - sizes[i] / 3};
      shards.emplace_back(
          write_shard(folder / ("s" + std::to_string(i)), counting_documents(lengths)));
    }
    for (const Shard& shard : shards) pointers.push_back(&shard);
  }
  TestFolder folder;
  std::deque<Shard> shards;
  std::vector<const Shard*> pointers;
};

PlanOptions options_of(Index length, std::uint64_t seed = 1, std::vector<double> weights = {}) {
  PlanOptions options;
  options.sequence_length = length;
  options.seed = seed;
  options.weights = std::move(weights);
  return options;
}

std::vector<Sample> samples_of(const SamplePlan& plan, Index begin, Index end) {
  std::vector<Sample> samples;
  for (Index k = begin; k < end; ++k) samples.push_back(plan.at(k));
  return samples;
}

using Key = std::pair<int, Index>;

std::map<Key, int> counts_of(const std::vector<Sample>& samples) {
  std::map<Key, int> counts;
  for (const Sample& sample : samples) ++counts[{sample.source, sample.number}];
  return counts;
}

}  // namespace

TEST_CASE("each window of each source comes once per epoch, in an order of its own per epoch") {
  const Sources sources({40, 25, 7});
  const auto plan = make_plan(sources.pointers, options_of(3));
  // ceil(39 / 3) + ceil(24 / 3) + ceil(6 / 3)
  const Index size = plan->samples_per_epoch();
  CHECK(size == 13 + 8 + 2);
  std::set<std::vector<Index>> orders;
  for (Index epoch = 0; epoch < 4; ++epoch) {
    const auto samples = samples_of(*plan, epoch * size, (epoch + 1) * size);
    const auto counts = counts_of(samples);
    CHECK(static_cast<Index>(counts.size()) == size);
    std::vector<Index> order;
    for (const Sample& sample : samples) {
      CHECK(sample.epoch == epoch);
      order.push_back(sample.source * 100 + sample.number);
    }
    orders.insert(order);
  }
  CHECK(orders.size() == 4);
}

TEST_CASE("the order depends on seed and phase, and on nothing that happened before") {
  const Sources sources({100});
  const auto plan = make_plan(sources.pointers, options_of(4, 7));
  const auto whole = samples_of(*plan, 0, 75);
  for (Index start = 0; start <= 75; ++start) {
    const auto again = make_plan(sources.pointers, options_of(4, 7));
    CHECK(samples_of(*again, start, 75) == std::vector<Sample>(whole.begin() + start, whole.end()));
  }
  CHECK(samples_of(*make_plan(sources.pointers, options_of(4, 8)), 0, 75) != whole);
  PlanOptions other_phase = options_of(4, 7);
  other_phase.stream = 1;
  CHECK(samples_of(*make_plan(sources.pointers, other_phase), 0, 75) != whole);
}

TEST_CASE("another plan object changes no order") {
  const Sources sources({100, 50});
  const auto plan = make_plan(sources.pointers, options_of(4, 7, {0.3, 0.7}));
  const auto expected = samples_of(*plan, 0, 50);
  const auto first = make_plan(sources.pointers, options_of(4, 7, {0.3, 0.7}));
  std::vector<Sample> found;
  for (Index k = 0; k < 50; ++k) {
    const auto extra = make_plan(sources.pointers, options_of(5, 9, {0.5, 0.5}));
    extra->at(49 - k);
    found.push_back(first->at(k));
  }
  CHECK(found == expected);
}

TEST_CASE("restarts from each of fifteen steps, and at both sides of an epoch's end, agree") {
  const Sources sources({31});  // ten windows of three
  const auto straight = make_plan(sources.pointers, options_of(3));
  REQUIRE(straight->samples_per_epoch() == 10);
  std::vector<Sample> trace;
  for (Index step = 0; step < 15; ++step) {
    const auto restarted = make_plan(sources.pointers, options_of(3));
    for (Index k = step * 2; k < step * 2 + 2; ++k) trace.push_back(restarted->at(k));
  }
  CHECK(trace == samples_of(*straight, 0, 30));
  for (const auto& [key, count] : counts_of(trace)) CHECK(count == 3);
}

TEST_CASE("resuming in the middle of an epoch skips nothing in later epochs") {
  const Sources sources({121});  // forty windows of three
  const auto plan = make_plan(sources.pointers, options_of(3));
  auto samples = samples_of(*plan, 0, 25);
  const auto resumed = make_plan(sources.pointers, options_of(3));
  for (const Sample& sample : samples_of(*resumed, 25, 120)) samples.push_back(sample);
  const auto counts = counts_of(samples);
  CHECK(counts.size() == 40);
  for (const auto& [key, count] : counts) CHECK(count == 3);
}

TEST_CASE("the batch size does not enter the order") {
  const Sources sources({100});
  const auto plan = make_plan(sources.pointers, options_of(4));
  std::vector<Sample> ramped;
  for (Index first = 0, rows = 4; first < 40; first += rows, rows = 8) {
    for (const Sample& sample : samples_of(*plan, first, std::min<Index>(first + rows, 40))) {
      ramped.push_back(sample);
    }
  }
  CHECK(ramped == samples_of(*plan, 0, 40));
}

TEST_CASE("a corpus shorter than one sequence is one sample, over and over") {
  const Sources sources({5});
  const auto plan = make_plan(sources.pointers, options_of(64));
  CHECK(plan->samples_per_epoch() == 1);
  std::vector<Piece> pieces;
  plan->append_pieces(plan->at(3), pieces);
  CHECK(pieces == std::vector<Piece>{{0, 0, 1}, {1, 0, 4}});
  CHECK(plan->at(3).epoch == 3);
}

TEST_CASE("small sources of a mixture begin again on their own") {
  const Sources sources({40, 40});
  const auto plan = make_plan(sources.pointers, options_of(4, 1, {0.001, 0.999}));
  Index taken[2] = {0, 0};
  for (Index k = 0; k < 5000; ++k) {
    const Sample sample = plan->at(k);
    CHECK(sample.epoch == taken[sample.source] / 10);
    CHECK(sample.number < 10);
    ++taken[sample.source];
    const double share = static_cast<double>(k + 1) * 0.001;
    CHECK(std::abs(static_cast<double>(taken[0]) - share) < 1);
  }
}

TEST_CASE("weights that work out to nothing are legal, others are refused in plain words") {
  const Sources sources({40, 40, 1});
  const auto plan = make_plan(sources.pointers, options_of(4, 1, {1, 1e-9, 0}));
  for (const Sample& sample : samples_of(*plan, 0, 1000)) CHECK(sample.source == 0);
  const auto fails = [&](std::vector<double> weights) {
    return failure_of([&] { make_plan(sources.pointers, options_of(4, 1, weights)); });
  };
  CHECK(fails({1, 1}).starts_with("2 data.weights has 2 entries for 3 token files"));
  CHECK(fails({0, 0, 0}).starts_with("2 data.weights"));
  CHECK(fails({1, -1, 0}).starts_with("2 data.weights: entry 1 is -1"));
  CHECK(fails({1, 1, 1}).find("only 1 tokens") != std::string::npos);
  const Sources empty({1, 0});
  CHECK(failure_of([&] { make_plan(empty.pointers, options_of(4)); }).starts_with("2 "));
}

TEST_CASE("without shuffling the windows come as they stand in the files") {
  const Sources sources({10, 7});
  PlanOptions options = options_of(4);
  options.order = SampleOrder::in_order;
  const auto plan = make_plan(sources.pointers, options);
  const std::vector<Sample> expected = {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}, {1, 0, 0}, {1, 0, 1}};
  CHECK(samples_of(*plan, 0, 5) == expected);
}

TEST_CASE("shares of random weights are exact: they add up and are off by less than one") {
  const Rng rng(5, "weights");
  for (Index trial = 0; trial < 40; ++trial) {
    const Index n = 1 + static_cast<Index>(rng.below(9, trial * 100));
    std::vector<double> weights;
    double sum = 0;
    for (Index i = 0; i < n; ++i) {
      weights.push_back(std::pow(rng.uniform(trial * 100 + 1 + i), trial % 2 == 0 ? 1 : 8) + 1e-4);
      sum += weights.back();
    }
    const Mixture mixture(weights);
    std::vector<Index> taken(weights.size(), 0);
    double worst = 0;
    for (Index k = 0; k < 3000; ++k) {
      const Mixture::Pick pick = mixture.at(k);
      CHECK(pick.number == taken[pick.source]++);
      for (Index i = 0; i < n; ++i) {
        const double share = weights[i] / sum * static_cast<double>(k + 1);
        worst = std::max(worst, std::abs(static_cast<double>(taken[i]) - share));
      }
    }
    CAPTURE(trial);
    CHECK(worst < 1);
  }
}

TEST_CASE("a mixture gives the same answers in any order of asking") {
  const std::vector<double> weights = {0.6, 0.25, 0.15};
  const Mixture walked(weights);
  std::vector<int> picks;
  for (Index k = 0; k < 200000; ++k) picks.push_back(walked.at(k).source);
  const Mixture fresh(weights);
  for (const Index k : {199999, 0, 131071, 131072, 131073, 65536, 65535, 5, 199998}) {
    CHECK(fresh.at(k).source == picks[k]);
  }
}

TEST_CASE("pieces of a stretch agree with a plain walk, empty sequences included") {
  TestFolder folder;
  std::vector<int> lengths;
  for (int i = 0; i < 1500; ++i) lengths.push_back(i % 7 == 0 ? 0 : i % 5);
  // Documents of length 0 have no sequence here; an empty sequence is tested with the fixtures.
  const Shard shard(write_shard(folder / "a", counting_documents(lengths, 0)));
  const TokenStream stream(shard.index());
  std::vector<std::int32_t> tokens;
  std::vector<Piece> pieces;
  for (Index begin = 0; begin < stream.num_tokens(); begin += 97) {
    const Index end = std::min(begin + 1 + begin % 300, stream.num_tokens());
    pieces.clear();
    stream.append_pieces(begin, end, pieces);
    Index at = begin;
    for (const Piece& piece : pieces) {
      REQUIRE(piece.end > piece.begin);
      tokens.resize(static_cast<std::size_t>(piece.end - piece.begin));
      shard.read(piece.sequence, piece.begin, piece.end, tokens.data());
      // Token values count up over the stream.
      for (const std::int32_t token : tokens) CHECK(token == at++);
    }
    CHECK(at == end);
  }
}

}  // namespace zaya
