// SPDX-License-Identifier: Apache-2.0
#include "data/llmc_shard.h"

#include <doctest/doctest.h>

#include <cstring>

#include "base/json.h"
#include "data/testing.h"

namespace zaya {

namespace {

const std::string kFixtures = std::string(ZAYA_TEST_DATA) + "/llmc-bin/";

std::vector<Index> integers(const Json& list) {
  std::vector<Index> values;
  for (const Json& item : list.items()) values.push_back(item.as_integer());
  return values;
}

std::vector<Index> tokens_of(const std::string& path) {
  LlmcTokens source(path);
  TokenBatch batch;
  std::vector<Index> tokens;
  while (source.next(batch)) {
    tokens.insert(tokens.end(), batch.tokens.begin(), batch.tokens.end());
  }
  CHECK(source.consumed() == source.num_bytes());
  return tokens;
}

void check_choices(const std::string& path, const Json& expected) {
  const MappedFile file(path);
  CHECK(parse_llmc(file.bytes(), path).longest_example_bytes ==
        expected.at("longest_example_bytes").as_integer());
  LlmcChoices choices(file.bytes(), path);
  ChoiceExample example;
  for (const Json& item : expected.at("examples").items()) {
    REQUIRE(choices.next(example));
    CHECK(example.label == item.at("label").as_integer());
    CHECK(example.context == integers(item.at("ctx")));
    const Json::Array& endings = item.at("ends").items();
    REQUIRE(example.endings.size() == endings.size());
    for (std::size_t e = 0; e < endings.size(); ++e) {
      CHECK(example.endings[e] == integers(endings[e]));
    }
  }
  CHECK(!choices.next(example));
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Walks all examples; the message of the failure.
std::string walk_choices(const std::string& bytes) {
  return failure_of([&] {
    LlmcChoices choices(bytes_of(bytes), "f");
    ChoiceExample example;
    while (choices.next(example)) {
    }
  });
}

std::string with_value(std::string bytes, std::size_t at, std::uint16_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

}  // namespace

TEST_CASE("shards of llm.c are read, and damaged ones refused") {
  const Json expected = Json::parse(read_file(kFixtures + "expected.json"), "expected.json");
  int num_accepted = 0, num_refused = 0;
  for (const auto& [name, info] : expected.members()) {
    CAPTURE(name);
    const std::string path = kFixtures + name;
    if (info.at("verdict").as_string() != "accept") {
      CHECK(failure_of([&] { LlmcTokens{path}; }).starts_with("3 " + path));
      ++num_refused;
      continue;
    }
    ++num_accepted;
    if (info.find("kind") != nullptr) {
      check_choices(path, info);
    } else {
      CHECK(tokens_of(path) == integers(info.at("tokens")));
    }
  }
  CHECK(num_accepted == 4);
  CHECK(num_refused == 7);
}

TEST_CASE("a header with something where llm.c has zeros is refused") {
  std::string bytes = read_file(kFixtures + "gpt2_v1_000001.bin");
  CHECK(failure_of([&] { parse_llmc(bytes_of(bytes), "f"); }) == "no error");
  bytes[1020] = '\1';
  CHECK(failure_of([&] { parse_llmc(bytes_of(bytes), "f"); }).find("in place 255") !=
        std::string::npos);
}

TEST_CASE("damaged multiple-choice examples are refused with their number") {
  const std::string good = read_file(kFixtures + "hellaswag_eval.bin");
  CHECK(walk_choices(good) == "no error");
  // The first example: mark, bytes, number, label, endings, context count, ids.
  struct Damage {
    std::size_t at;
    std::uint16_t value;
    const char* message;
  };
  for (const auto& [at, value, message] : std::vector<Damage>{
           {1024, 1, "does not begin with 65535"},
           {1026, 2, "states 2 bytes"},
           {1026, 60000, "states 60000 bytes"},
           {1026, 42, "above the longest"},
           {1026, 36, "ends before its"},
           {1026, 38, "states 1 ids"},
           {1028, 7, "has the number 7"},
           {1030, 4, "label 4 and 4 endings"},
           {1032, 3, "shorter than it states"},
           {1034, 60000, "states 60000 ids"},
       }) {
    CAPTURE(message);
    const std::string failure = walk_choices(with_value(good, at, value));
    CHECK(failure.starts_with("3 f: example 0"));
    CHECK(failure.find(message) != std::string::npos);
  }
  CHECK(walk_choices(good.substr(0, good.size() - 2)).starts_with("3 f: example 1"));
  CHECK(walk_choices(good + "ab").find("follow the last example") != std::string::npos);
}

}  // namespace zaya
