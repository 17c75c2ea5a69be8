// SPDX-License-Identifier: Apache-2.0
#include "data/megatron_order.h"

#include <doctest/doctest.h>

#include <deque>

#include "base/json.h"
#include "data/testing.h"

namespace zaya {

namespace {

Json expected_orders() {
  const std::string path = std::string(ZAYA_TEST_DATA) + "/megatron-idx/gpt_order.json";
  return Json::parse(read_file(path), path);
}

std::vector<Index> integers(const Json& list) {
  std::vector<Index> values;
  for (const Json& item : list.items()) values.push_back(item.as_integer());
  return values;
}

// Token t of sequence s is 1000 s + t.
std::vector<std::vector<std::int32_t>> numbered(const std::vector<Index>& lengths) {
  std::vector<std::vector<std::int32_t>> documents;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    documents.emplace_back();
    for (Index t = 0; t < lengths[s]; ++t) {
      documents.back().push_back(static_cast<std::int32_t>(1000 * static_cast<Index>(s) + t));
    }
  }
  return documents;
}

std::vector<Index> tokens_of(const Shard& shard, const SamplePlan& plan, Index k) {
  std::vector<Piece> pieces;
  plan.append_pieces(plan.at(k), pieces);
  std::vector<Index> tokens;
  for (const Piece& piece : pieces) {
    std::vector<std::int64_t> part(static_cast<std::size_t>(piece.end - piece.begin));
    shard.read(piece.sequence, piece.begin, piece.end, part.data());
    tokens.insert(tokens.end(), part.begin(), part.end());
  }
  return tokens;
}

}  // namespace

TEST_CASE("orders of samples are those of Megatron-LM") {
  const TestFolder folder;
  const Json expected = expected_orders();
  for (const Json& item : expected.at("cases").items()) {
    const std::string name = item.at("name").as_string();
    CAPTURE(name);
    const Shard shard(write_shard(folder / name, numbered(integers(item.at("sequence_lengths")))));
    MegatronOrderArgs args;
    args.sequences = integers(item.at("documents"));
    args.sequence_length = item.at("sequence_length").as_integer();
    args.seed = static_cast<std::uint32_t>(item.at("seed").as_integer());
    const Json& wanted = item.at("num_samples");
    if (!wanted.is_null()) args.wanted_samples = wanted.as_integer();
    const MegatronOrder order = build_megatron_order(shard.index(), args);
    CHECK(order.num_epochs == item.at("num_epochs").as_integer());
    CHECK(order.has_separate_final_epoch == item.at("separate_final_epoch").as_bool());
    CHECK(order.document_order == integers(item.at("document_index")));
    CHECK(order.shuffle == integers(item.at("shuffle_index")));
    std::vector<MegatronOrder::Start> starts;
    for (const Json& start : item.at("sample_index").items()) {
      starts.push_back({start.items()[0].as_integer(), start.items()[1].as_integer()});
    }
    CHECK(order.samples == starts);

    if (!args.wanted_samples) continue;
    PlanOptions options;
    options.order = SampleOrder::megatron;
    options.sequence_length = args.sequence_length;
    options.seed = args.seed;
    options.wanted_samples = *args.wanted_samples;
    const auto plan = make_plan({&shard}, options);
    const Json::Array& first = item.at("first_samples").items();
    for (std::size_t k = 0; k < first.size(); ++k) {
      CHECK(tokens_of(shard, *plan, static_cast<Index>(k)) == integers(first[k]));
    }
  }
}

TEST_CASE("blends are those of Megatron-LM") {
  const Json expected = expected_orders();
  for (const Json& item : expected.at("blending").items()) {
    std::vector<double> weights;
    for (const Json& weight : item.at("weights").items()) weights.push_back(weight.as_real());
    const auto picks = megatron_blend(weights, item.at("size").as_integer());
    std::vector<Index> sources, numbers;
    for (const auto& [source, number] : picks) {
      sources.push_back(source);
      numbers.push_back(number);
    }
    CHECK(sources == integers(item.at("dataset_index")));
    CHECK(numbers == integers(item.at("dataset_sample_index")));
  }
}

TEST_CASE("splits are those of Megatron-LM") {
  const Json expected = expected_orders();
  for (const Json& item : expected.at("splits").items()) {
    std::vector<double> shares;
    std::string text = item.at("split").as_string() + ",";
    for (std::size_t comma = 0; (comma = text.find(',')) != std::string::npos;) {
      shares.push_back(std::stod(text.substr(0, comma)));
      text.erase(0, comma + 1);
    }
    const auto ranges = megatron_split(shares, item.at("documents").as_integer());
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const Json& range = item.at("ranges").items()[i];
      if (range.is_null()) {
        CHECK(ranges[i].first == ranges[i].second);
      } else {
        CHECK(ranges[i].first == range.items()[0].as_integer());
        CHECK(ranges[i].second == range.items()[1].as_integer());
      }
    }
  }
}

TEST_CASE("a blend of sources has Megatron's shares and begins again when it is used up") {
  const TestFolder folder;
  std::deque<Shard> shards;
  std::vector<const Shard*> pointers;
  for (const char* name : {"a", "b", "c"}) {
    shards.emplace_back(write_shard(folder / name, counting_documents({30, 40, 30})));
    pointers.push_back(&shards.back());
  }
  PlanOptions options;
  options.order = SampleOrder::megatron;
  options.sequence_length = 8;
  options.weights = {7, 2, 1};
  options.wanted_samples = 40;
  const auto plan = make_plan(pointers, options);
  const auto blend = megatron_blend({0.7, 0.2, 0.1}, 40);
  for (Index k = 0; k < 80; ++k) {
    CHECK(plan->at(k).source == blend[k % 40].first);
    std::vector<Piece> pieces;
    plan->append_pieces(plan->at(k), pieces);
    Index count = 0;
    for (const Piece& piece : pieces) count += piece.end - piece.begin;
    CHECK(count == 9);
  }
  CHECK(plan->at(3).number == plan->at(43).number);
}

TEST_CASE("a split trains on the first share of each source only, and weighs by it") {
  const TestFolder folder;
  const Shard a(write_shard(folder / "a", counting_documents({9, 9, 9, 9, 9, 9, 9, 9, 9, 9})));
  const Shard b(write_shard(folder / "b", counting_documents({40, 41}, 1000)));
  PlanOptions options;
  options.order = SampleOrder::megatron;
  options.sequence_length = 4;
  options.split = {5, 3, 2};
  options.wanted_samples = 40;
  const auto plan = make_plan({&a, &b}, options);
  int num_of_b = 0;
  for (Index k = 0; k < 40; ++k) {
    const bool is_b = plan->at(k).source == 1;
    num_of_b += is_b ? 1 : 0;
    // a: five of ten documents, 45 tokens; b: one of two, 40 tokens.
    for (const Index token : tokens_of(is_b ? b : a, *plan, k)) {
      CHECK(token <= (is_b ? 1039 : 45));
    }
  }
  CHECK(num_of_b == 19);
}

TEST_CASE("what Megatron's order can't do is refused in plain words") {
  const TestFolder folder;
  const Shard shard(write_shard(folder / "a", counting_documents({3})));
  PlanOptions options;
  options.order = SampleOrder::megatron;
  options.sequence_length = 2;
  options.seed = std::uint64_t{1} << 32;
  CHECK(failure_of([&] { make_plan({&shard}, options); }).find("run.seed") != std::string::npos);
  MegatronOrderArgs args;
  args.sequences = {0};
  args.sequence_length = 3;
  CHECK(failure_of([&] { build_megatron_order(shard.index(), args); }).find("give no sample") !=
        std::string::npos);
}

}  // namespace zaya
