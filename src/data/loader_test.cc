// SPDX-License-Identifier: Apache-2.0
#include "data/loader.h"

#include <doctest/doctest.h>

#include <chrono>
#include <deque>
#include <map>
#include <thread>

#include "data/fingerprint.h"
#include "data/testing.h"

namespace zaya {

namespace {

// Token files, a plan and a loader over them.
struct Setup {
  Setup(const std::vector<std::vector<int>>& lengths, PlanOptions options, bool isolates) {
    std::int32_t first = 1;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto documents = counting_documents(lengths[i], first);
      for (const auto& document : documents) first += static_cast<std::int32_t>(document.size());
      shards.emplace_back(write_shard(folder / std::to_string(i), documents));
    }
    for (const Shard& shard : shards) pointers.push_back(&shard);
    plan = make_plan(pointers, options);
    loader = std::make_unique<SampleLoader>(pointers, *plan, isolates);
  }
  Batch load(Index first_sample, Index rows) const {
    Batch batch;
    loader->load(first_sample, rows, batch);
    return batch;
  }

  TestFolder folder;
  std::deque<Shard> shards;
  std::vector<const Shard*> pointers;
  std::unique_ptr<SamplePlan> plan;
  std::unique_ptr<SampleLoader> loader;
};

PlanOptions in_order(Index length) {
  PlanOptions options;
  options.order = SampleOrder::in_order;
  options.sequence_length = length;
  return options;
}

PlanOptions shuffled(Index length) {
  PlanOptions options;
  options.sequence_length = length;
  options.seed = 3;
  return options;
}

using Tokens = std::vector<std::int32_t>;

Prefetcher::Schedule steps_of(const SampleLoader& loader, Index rows, Index count) {
  return [&loader, rows, count](Index k, Prefetcher::Request& request) {
    request = {&loader, k * rows, rows};
    return k < count;
  };
}

}  // namespace

TEST_CASE("rows with isolated documents: targets, positions and segments end with a document") {
  const Setup setup({{3, 0, 4, 2}}, in_order(4), true);  // 1 2 3 | 4 5 6 7 | 8 9
  REQUIRE(setup.plan->samples_per_epoch() == 2);
  const Batch batch = setup.load(0, 2);
  CHECK(batch.ids == Tokens{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(batch.targets == Tokens{2, 3, -1, 5, 6, 7, -1, 9});
  CHECK(batch.positions == Tokens{0, 1, 2, 0, 0, 1, 2, 0});
  const std::vector<BatchSegment> segments = {
      {0, 0, 3, false}, {0, 3, 4, false}, {1, 4, 7, false}, {1, 7, 8, false}};
  CHECK(batch.segments == segments);
  const std::vector<BatchDocument> documents = {
      {0, 0, 3, 0}, {0, 3, 4, 2}, {1, 4, 7, 2}, {1, 7, 8, 3}};
  CHECK(batch.documents == documents);
  CHECK(batch.num_targets == 6);
  CHECK(batch.num_padding == 0);
}

TEST_CASE("rows without isolation run on over the borders of documents") {
  const Setup setup({{3, 0, 4, 2}}, in_order(4), false);
  const Batch batch = setup.load(0, 2);
  CHECK(batch.targets == Tokens{2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(batch.positions == Tokens{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(batch.segments == std::vector<BatchSegment>{{0, 0, 4, false}, {1, 4, 8, false}});
  CHECK(batch.documents.size() == 4);
  CHECK(batch.documents[2] == BatchDocument{1, 4, 7, 2});
  CHECK(batch.num_targets == 8);
}

TEST_CASE("the end of a source is padded, masked and counted") {
  const Setup setup({{5, 2}}, in_order(4), true);  // 1 2 3 4 5 | 6 7
  const Batch batch = setup.load(1, 1);
  CHECK(batch.ids == Tokens{5, 6, 0, 0});
  CHECK(batch.targets == Tokens{-1, 7, -1, -1});
  CHECK(batch.positions == Tokens{0, 0, 0, 1});
  const std::vector<BatchSegment> segments = {{0, 0, 1, false}, {0, 1, 2, false}, {0, 2, 4, true}};
  CHECK(batch.segments == segments);
  CHECK(batch.documents == std::vector<BatchDocument>{{0, 0, 1, 0}, {0, 1, 2, 1}});
  CHECK(batch.num_targets == 1);
  CHECK(batch.num_padding == 2);
}

TEST_CASE("a border between the last input and the last target leaves no target behind") {
  const Setup setup({{4, 3}}, in_order(4), true);  // 1 2 3 4 | 5 6 7
  const Batch batch = setup.load(0, 1);
  CHECK(batch.targets == Tokens{2, 3, 4, -1});
  CHECK(batch.segments == std::vector<BatchSegment>{{0, 0, 4, false}});
  CHECK(batch.documents == std::vector<BatchDocument>{{0, 0, 4, 0}});
}

TEST_CASE("in one epoch each token is a target once, but for the first of each document") {
  const std::vector<std::vector<int>> lengths = {{7, 0, 1, 13, 2, 1, 1, 30}, {9, 5}, {1, 40}};
  for (const Index length : {1, 2, 3, 8, 17, 64}) {
    for (const bool isolates : {true, false}) {
      CAPTURE(length);
      CAPTURE(isolates);
      const Setup setup(lengths, shuffled(length), isolates);
      std::map<std::int32_t, int> inputs, targets;
      Index num_targets = 0, num_padding = 0, expected = 0;
      const Index size = setup.plan->samples_per_epoch();
      for (Index k = 0; k < size; ++k) {
        const Batch batch = setup.load(k, 1);
        for (Index t = 0; t < length - batch.num_padding; ++t) ++inputs[batch.ids[t]];
        for (const std::int32_t target : batch.targets) {
          if (target >= 0) ++targets[target];
        }
        num_targets += batch.num_targets;
        num_padding += batch.num_padding;
      }
      Index num_inputs = 0;
      for (const Shard& shard : setup.shards) {
        expected += targets_per_epoch(shard.index(), isolates);
        num_inputs += shard.index().num_tokens() - 1;
      }
      CHECK(num_targets == expected);
      CHECK(static_cast<Index>(targets.size()) == expected);
      for (const auto& [token, count] : targets) CHECK(count == 1);
      CHECK(static_cast<Index>(inputs.size()) == num_inputs);
      for (const auto& [token, count] : inputs) CHECK(count == 1);
      CHECK(num_padding == size * length - num_inputs);
    }
  }
}

TEST_CASE("segments cover all tokens, and no segment holds two documents") {
  const std::vector<int> lengths = {5, 1, 9, 0, 2, 30, 3};
  const Setup setup({lengths}, shuffled(8), true);
  std::map<std::int32_t, int> document_of;
  std::int32_t token = 1;
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    for (int i = 0; i < lengths[d]; ++i) document_of[token++] = static_cast<int>(d);
  }
  const Batch batch = setup.load(0, setup.plan->samples_per_epoch());
  Index end = 0;
  for (const BatchSegment& segment : batch.segments) {
    CHECK(segment.begin == end);
    CHECK(segment.begin / 8 == segment.row);
    CHECK((segment.end - 1) / 8 == segment.row);
    end = segment.end;
    for (Index t = segment.begin; t < segment.end; ++t) {
      if (segment.is_padding) {
        CHECK(batch.targets[t] == -1);
      } else {
        CHECK(document_of[batch.ids[t]] == document_of[batch.ids[segment.begin]]);
        if (batch.targets[t] >= 0)
          CHECK(document_of[batch.targets[t]] == document_of[batch.ids[t]]);
      }
    }
  }
  CHECK(end == batch.rows * 8);
}

TEST_CASE("several sequences of one document are one segment, empty ones between them too") {
  const std::string fixtures = std::string(ZAYA_TEST_DATA) + "/megatron-idx/";
  const Shard shard(fixtures + "i32_sentences");  // documents of 4 + 6, 3, and 2 + 1 + 5 tokens
  const auto plan = make_plan({&shard}, in_order(20));
  const SampleLoader loader({&shard}, *plan, true);
  Batch batch;
  loader.load(0, 1, batch);
  const std::vector<BatchSegment> segments = {
      {0, 0, 10, false}, {0, 10, 13, false}, {0, 13, 20, false}};
  CHECK(batch.segments == segments);
  CHECK(batch.num_targets == 18);
}

TEST_CASE("a batch is a function of its sample numbers: cut differently, rows agree") {
  const Setup setup({{50, 20, 3}, {33}}, shuffled(8), true);
  const Batch whole = setup.load(2, 6);
  Batch reused = setup.load(0, 30);
  for (Index r = 0; r < 6; ++r) {
    setup.loader->load(2 + r, 1, reused);
    const auto begin = whole.ids.begin() + r * 8;
    CHECK(reused.ids == Tokens(begin, begin + 8));
    CHECK(reused.samples[0] == whole.samples[r]);
  }
}

TEST_CASE("ranks that share the micro-batches of a step consume together what one rank consumes") {
  const Setup setup({{50, 20, 3}, {33}}, shuffled(8), true);
  constexpr Index kMicroBatches = 12, kRows = 2;  // of one step
  const auto trace_of = [&](Index num_ranks, Index first_step, Index end_step) {
    std::map<Index, std::vector<Sample>> trace;  // by number of the micro-batch
    for (Index rank = 0; rank < num_ranks; ++rank) {
      Prefetcher prefetcher(
          [&](Index k, Prefetcher::Request& request) {
            const Index per_step = kMicroBatches / num_ranks;
            const Index step = first_step + k / per_step;
            const Index micro = step * kMicroBatches + rank * per_step + k % per_step;
            request = {setup.loader.get(), micro * kRows, kRows};
            return step < end_step;
          },
          2);
      while (const Batch* batch = prefetcher.next()) {
        CHECK(trace.emplace(batch->first_sample / kRows, batch->samples).second);
      }
    }
    return trace;
  };
  const auto whole = trace_of(1, 0, 4);
  CHECK(whole.size() == 4 * kMicroBatches);
  // Two steps on one number of ranks, two on another: the position is a global count.
  for (const auto& [before, after] : {std::pair{4, 2}, {2, 4}, {3, 2}, {1, 3}, {2, 1}}) {
    auto trace = trace_of(before, 0, 2);
    trace.merge(trace_of(after, 2, 4));
    CHECK(trace == whole);
  }
}

TEST_CASE("the prefetcher hands out the scheduled batches in order and then nothing") {
  const Setup setup({{50, 20, 3}, {33}}, shuffled(8), true);
  for (const Index depth : {1, 2, 7}) {
    Prefetcher prefetcher(steps_of(*setup.loader, 3, 11), depth);
    for (Index k = 0; k < 11; ++k) {
      const Batch* batch = prefetcher.next();
      REQUIRE(batch != nullptr);
      CHECK(*batch == setup.load(k * 3, 3));
    }
    CHECK(prefetcher.next() == nullptr);
    CHECK(prefetcher.next() == nullptr);
    CHECK(prefetcher.take_wait_seconds() >= 0);
  }
}

TEST_CASE("a batch stays unchanged until the next one is asked for") {
  const Setup setup({{200}}, shuffled(4), true);
  Prefetcher prefetcher(steps_of(*setup.loader, 2, 20), 1);
  for (Index k = 0; k < 20; ++k) {
    const Batch* batch = prefetcher.next();
    const Batch copy = *batch;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    CHECK(*batch == copy);
  }
}

TEST_CASE("phases with other lengths follow each other in one schedule") {
  const Setup setup({{100}}, shuffled(4), true);
  const auto longer = make_plan(setup.pointers, shuffled(16));
  const SampleLoader other(setup.pointers, *longer, true);
  Prefetcher prefetcher(
      [&](Index k, Prefetcher::Request& request) {
        const bool is_first = k < 5;
        request = {is_first ? setup.loader.get() : &other, is_first ? k : k - 5, 1};
        return k < 10;
      },
      3);
  for (Index k = 0; k < 10; ++k) CHECK(prefetcher.next()->length == (k < 5 ? 4 : 16));
}

TEST_CASE("a failure of the thread surfaces at its batch, and again") {
  const Setup setup({{100}}, shuffled(4), true);
  Prefetcher prefetcher(
      [&](Index k, Prefetcher::Request& request) {
        if (k >= 3) throw Error{ErrorKind::damaged, "gone"};
        request = {setup.loader.get(), k, 1};
        return true;
      },
      1);
  CHECK(prefetcher.next() != nullptr);
  CHECK(prefetcher.next() != nullptr);
  Index num_more = 0;
  const auto drain = [&] {
    while (prefetcher.next() != nullptr) ++num_more;
  };
  CHECK(failure_of(drain) == "3 gone");
  CHECK(failure_of(drain) == "3 gone");
  CHECK(num_more <= 1);
}

TEST_CASE("a prefetcher goes away at once, used or not") {
  const Setup setup({{100}}, shuffled(4), true);
  for (int i = 0; i < 50; ++i) {
    Prefetcher prefetcher(steps_of(*setup.loader, 1, 1 << 30), 4);
    for (int k = 0; k < i % 3; ++k) prefetcher.next();
  }
}

TEST_CASE("changed data is noticed before a position is used, and the choices are named") {
  const TestFolder folder;
  const Shard before(write_shard(folder / "a", counting_documents({10, 20})));
  const std::string saved = data_fingerprint({&before});
  check_data_unchanged(saved, {&before});
  const Shard copy(write_shard(folder / "b", counting_documents({10, 20})));
  check_data_unchanged(saved, {&copy});
  const Shard smaller(write_shard(folder / "c", counting_documents({10})));
  const Shard other_tokens(write_shard(folder / "d", counting_documents({10, 20}, 2)));
  const Shard other_borders(write_shard(folder / "e", counting_documents({20, 10})));
  const Shard other_tokenizer(write_shard(folder / "f", counting_documents({10, 20}), "other"));
  for (const Shard* shard : {&smaller, &other_tokens, &other_borders, &other_tokenizer}) {
    const std::string message = failure_of([&] { check_data_unchanged(saved, {shard}); });
    CAPTURE(shard->prefix());
    CHECK(message.starts_with("2 data.train"));
    CHECK(message.find("put the old files back, or start a new run") != std::string::npos);
  }
  CHECK(data_fingerprint({&before, &copy}) != saved);
}

}  // namespace zaya
