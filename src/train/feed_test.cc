// SPDX-License-Identifier: Apache-2.0
#include "train/feed.h"

#include <doctest/doctest.h>

#include "data/loader.h"
#include "data/testing.h"

namespace zaya {

namespace {

TrainConfig config_of(const std::string& prefix) {
  TrainConfig config;
  config.model.vocab_size = 1 << 20;
  config.data.train = {prefix};
  config.data.document_isolation = false;
  config.data.order = "megatron";
  config.run.seed = 1234;
  PhaseOptions phase;
  phase.tokens = 96;
  phase.sequence_length = 8;
  phase.batch_tokens = 32;
  phase.micro_batch_tokens = 16;
  config.phases = {phase};
  return config;
}

// The inputs and targets of so many micro-batches from row `first_row` on.
std::vector<std::int32_t> tokens_of(Feed& feed, Index first_row, int num_micro_batches) {
  std::vector<std::int32_t> tokens;
  feed.begin(0, first_row);
  for (int m = 0; m < num_micro_batches; ++m) {
    const MicroBatch& micro = feed.next();
    for (const ConstTensor& values : {micro.batch.ids, micro.batch.targets}) {
      const auto* data = reinterpret_cast<const std::int32_t*>(values.data());
      tokens.insert(tokens.end(), data, data + values.count());
    }
  }
  return tokens;
}

// The same by Megatron's rule: 12 samples of 8 + 1 tokens.
std::vector<std::int32_t> expected_tokens(const Shard& shard, Index first_row,
                                          int num_micro_batches, std::vector<double> split) {
  PlanOptions options;
  options.order = SampleOrder::megatron;
  options.sequence_length = 8;
  options.seed = 1234;
  options.split = std::move(split);
  options.wanted_samples = 12;
  const auto plan = make_plan({&shard}, options);
  const SampleLoader loader({&shard}, *plan, false);
  std::vector<std::int32_t> tokens;
  Batch batch;
  for (int m = 0; m < num_micro_batches; ++m) {
    loader.load(first_row + 2 * m, 2, batch);
    tokens.insert(tokens.end(), batch.ids.begin(), batch.ids.end());
    tokens.insert(tokens.end(), batch.targets.begin(), batch.targets.end());
  }
  return tokens;
}

}  // namespace

TEST_CASE("data.order = megatron gives a run Megatron's samples, from any row on") {
  const TestFolder folder;
  const std::string prefix =
      write_shard(folder / "a", counting_documents({17, 30, 5, 41, 12, 9, 33, 20}));
  const Shard shard(prefix);
  TrainConfig config = config_of(prefix);
  Feed feed(config);
  const std::vector<std::int32_t> whole = tokens_of(feed, 0, 6);
  CHECK(whole == expected_tokens(shard, 0, 6, {}));
  CHECK(tokens_of(feed, 4, 4) == expected_tokens(shard, 4, 4, {}));

  config.data.split = {60, 30, 10};
  Feed split(config);
  CHECK(tokens_of(split, 0, 6) == expected_tokens(shard, 0, 6, {60, 30, 10}));
  CHECK(tokens_of(split, 0, 6) != whole);

  config.data.split = {};
  config.data.order = "shuffled";
  Feed shuffled(config);
  CHECK(tokens_of(shuffled, 0, 6) != whole);
}

}  // namespace zaya
