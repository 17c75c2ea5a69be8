// SPDX-License-Identifier: Apache-2.0
#include "data/shard.h"

#include <doctest/doctest.h>

#include "base/json.h"
#include "data/merge.h"
#include "data/shard_set.h"
#include "data/testing.h"

namespace zaya {

namespace {

const std::string kFixtures = std::string(ZAYA_TEST_DATA) + "/megatron-idx/";

Json documents_of(const Shard& shard) {
  Json documents = Json::array();
  for (Index d = 0; d < shard.index().num_documents(); ++d) {
    Json document = Json::array();
    for (Index s = shard.index().document_begin(d); s < shard.index().document_begin(d + 1); ++s) {
      std::vector<std::int64_t> tokens(static_cast<std::size_t>(shard.index().length(s)));
      shard.read(s, 0, shard.index().length(s), tokens.data());
      Json sequence = Json::array();
      for (const std::int64_t token : tokens) sequence.push(token);
      document.push(std::move(sequence));
    }
    documents.push(std::move(document));
  }
  return documents;
}

void check_accepted(const std::string& name, const Json& expected) {
  const Shard shard(kFixtures + name);
  const TokenIndex& index = shard.index();
  verify_shard(shard);
  CHECK(name_of(index.type()) == expected.at("dtype").as_string());
  CHECK(index.num_tokens() == expected.at("tokens").as_integer());
  CHECK(shard.bin_bytes() == expected.at("bin_bytes").as_integer());
  CHECK(documents_of(shard) == expected.at("documents"));
  const Json::Array& lengths = expected.at("sequence_lengths").items();
  REQUIRE(index.num_sequences() == static_cast<Index>(lengths.size()));
  for (Index s = 0; s < index.num_sequences(); ++s) {
    CHECK(index.length(s) == lengths[s].as_integer());
    CHECK(index.document_begin(index.document_of(s)) <= s);
    CHECK(s < index.document_begin(index.document_of(s) + 1));
  }
  const Json::Array& entries = expected.at("document_indices").items();
  REQUIRE(index.num_documents() + 1 == static_cast<Index>(entries.size()));
  for (Index d = 0; d <= index.num_documents(); ++d) {
    CHECK(index.document_begin(d) == entries[d].as_integer());
  }
  CHECK(index.has_modes() == (expected.find("modes") != nullptr));
  for (Index s = 0; index.has_modes() && s < index.num_sequences(); ++s) {
    CHECK(index.mode(s) == expected.at("modes").items()[s].as_integer());
  }
}

// Writes the documents of a shard anew, byte for byte.
void rewrite(const Shard& shard, const std::string& prefix) {
  const TokenIndex& index = shard.index();
  ShardWriter writer(prefix, index.type());
  for (Index d = 0; d < index.num_documents(); ++d) {
    for (Index s = index.document_begin(d); s < index.document_begin(d + 1); ++s) {
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(index.length(s)));
      shard.read(s, 0, index.length(s), tokens.data());
      writer.add_sequence(tokens);
    }
    writer.end_document();
  }
  writer.finish({});
  publish_shard(prefix);
}

}  // namespace

TEST_CASE("token files of other programs are read, and damaged ones refused") {
  const Json expected = Json::parse(read_file(kFixtures + "expected.json"), "expected.json");
  int num_accepted = 0, num_refused = 0;
  for (const auto& [name, info] : expected.members()) {
    CAPTURE(name);
    if (info.at("verdict").as_string() == "accept") {
      check_accepted(name, info);
      ++num_accepted;
    } else {
      CHECK(failure_of([&] { verify_shard(Shard(kFixtures + name)); }).starts_with("3 "));
      ++num_refused;
    }
  }
  CHECK(num_accepted == 13);
  CHECK(num_refused == 11);
}

TEST_CASE("the writer makes the same bytes as Megatron's") {
  const TestFolder folder;
  for (const std::string name :
       {"u16_five_docs", "i32_large_ids", "i32_sentences", "u16_empty_document",
        "u16_empty_sequence", "u16_no_documents", "merge_ab"}) {
    CAPTURE(name);
    rewrite(Shard(kFixtures + name), folder / name);
    CHECK(read_file(folder / (name + ".bin")) == read_file(kFixtures + name + ".bin"));
    CHECK(read_file(folder / (name + ".idx")) == read_file(kFixtures + name + ".idx"));
    CHECK(list_directory(folder / "").size() == 3);
    remove_all(folder / (name + ".bin"));
    remove_all(folder / (name + ".idx"));
    remove_all(folder / (name + ".json"));
  }
}

TEST_CASE("one changed token is found by the checksum in the side file") {
  const TestFolder folder;
  const std::string prefix = write_shard(folder / "a", {{1, 2, 3}, {4}});
  verify_shard(Shard(prefix));
  std::string bytes = read_file(bin_path(prefix));
  bytes[4] = '\3';
  folder.write("a.bin", bytes);
  CHECK(failure_of([&] { verify_shard(Shard(prefix)); }).find("the checksum is not that of") !=
        std::string::npos);
}

TEST_CASE("a sequence written piece by piece is one sequence") {
  const TestFolder folder;
  ShardWriter writer(folder / "a", TokenType::u16);
  writer.append(std::vector<std::int32_t>{1, 2});
  writer.append(std::vector<std::int32_t>{});
  writer.append(std::vector<std::int32_t>{3});
  writer.end_sequence();
  writer.end_document();
  writer.finish({});
  publish_shard(folder / "a");
  const Shard shard(folder / "a");
  verify_shard(shard);
  CHECK(shard.index().num_sequences() == 1);
  CHECK(shard.index().length(0) == 3);
  CHECK(shard.info()->largest_id == 3);
}

TEST_CASE(
    "a side file reads back as it was written, and a foreign file of that name is left alone") {
  const TestFolder folder;
  ShardInfo info;
  info.tokenizer_digest = "xxh3-128:00";
  info.vocabulary_size = 100;
  info.eod_id = 3;
  info.appends_eod = true;
  info.documents = 5;
  info.sources = {{"a \"b\".txt", 10, 5, 4}};
  CHECK(ShardInfo::from_json(Json::parse(info.to_json().dump(2), ""), "") == info);

  const std::string prefix = write_shard(folder / "a", {{1, 2}});
  folder.write("a.json", "{\"mine\": 1}");
  CHECK(!Shard(prefix).info());
  CHECK(failure_of([&] { is_output_taken(prefix); }).starts_with("2 " + prefix + ".json"));
}

TEST_CASE("verify finds what does not fit the side file, and negative ids") {
  const TestFolder folder;
  const std::string prefix = write_shard(folder / "a", {{1, 2}, {3}});
  const std::string other = write_shard(folder / "b", {{1, 2}, {4}});
  const std::string bin = read_file(other + ".bin");
  verify_shard(Shard(prefix));
  folder.write("a.bin", bin);
  CHECK(failure_of([&] { verify_shard(Shard(prefix)); }).find("largest id") != std::string::npos);
  folder.write("a.bin", std::string(12, '\xff'));
  CHECK(failure_of([&] { verify_shard(Shard(prefix)); }).find("the id -1") != std::string::npos);
  write_shard(folder / "b", {{1, 2, 4}});
  folder.write("a.idx", read_file(folder / "b.idx"));
  folder.write("a.bin", bin);
  CHECK(failure_of([&] { verify_shard(Shard(prefix)); }).find("states 2 documents") !=
        std::string::npos);
}

TEST_CASE("ids at or above the model's vocabulary and another tokenizer are refused at the start") {
  const TestFolder folder;
  const Shard shard(write_shard(folder / "a", {{1, 2}, {63}}, "digest"));
  check_usable(shard, 64, "digest");
  check_usable(shard, 64, "");
  CHECK(failure_of([&] {
          check_usable(shard, 63, "digest");
        }).find("holds the id 63, the model's vocabulary has 63 rows") != std::string::npos);
  const std::string message = failure_of([&] { check_usable(shard, 64, "other"); });
  CHECK(message.starts_with("2 "));
  CHECK(message.find("another tokenizer (digest, not other)") != std::string::npos);
  CHECK(failure_of([&] {
          check_usable(Shard(kFixtures + "i64_wide"), 64, "");
        }).find("1099511627776") != std::string::npos);
}

TEST_CASE("files of one set agree on their tokenizer, also when none is named") {
  const TestFolder folder;
  const std::string a = write_shard(folder / "a", {{1, 2}}, "digest");
  const std::string b = write_shard(folder / "b", {{1, 2}}, "other");
  CHECK(ShardSet(std::vector<std::string>{a, a}, 64, "").all().size() == 2);
  const std::string message = failure_of([&] {
    const ShardSet set(std::vector<std::string>{a, b}, 64, "");
  });
  CHECK(message.find("another tokenizer (other, not digest)") != std::string::npos);
}

TEST_CASE("a prefix without files is wrong use, and the ending is hinted at") {
  const TestFolder folder;
  CHECK(failure_of([&] { Shard(folder / "no"); }).starts_with("2 "));
  write_shard(folder / "a", {{1}});
  CHECK(failure_of([&] { Shard(folder / "a.bin"); }).find("without .bin") != std::string::npos);
}

TEST_CASE("a sampled scan looks at a part and says so") {
  const TestFolder folder;
  const Shard shard(
      write_shard(folder / "a", {std::vector<std::int32_t>(100000, 5), {9}, {0}, {7}}));
  const TokenRange all = scan_tokens(shard, 1 << 20);
  CHECK(all.is_exact);
  CHECK(all.least == 0);
  CHECK(all.largest == 9);
  const TokenRange some = scan_tokens(shard, 20000);
  CHECK(!some.is_exact);
  CHECK(some.largest >= 5);
}

TEST_CASE("no byte of an index can be changed into a crash") {
  const std::string bytes = read_file(kFixtures + "i32_sentences.idx");
  const Index bin_bytes = file_size(kFixtures + "i32_sentences.bin");
  int num_accepted = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      try {
        const TokenIndex index(std::as_bytes(std::span(changed)), bin_bytes, "changed");
        for (Index s = 0; s < index.num_sequences(); ++s) {
          const Index size = index.length(s) * bytes_per_token(index.type());
          REQUIRE(index.position(s) >= 0);
          REQUIRE(index.position(s) + size <= bin_bytes);
        }
        ++num_accepted;
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::damaged);
      }
    }
  }
  CHECK(num_accepted > 0);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    CHECK_THROWS_AS(TokenIndex(std::as_bytes(std::span(cut)), bin_bytes, "cut"), Error);
  }
}

TEST_CASE("a writer goes on where a journal says, and refuses files that are too short") {
  const TestFolder folder;
  const auto documents = counting_documents({3, 0, 5, 1});
  const std::string whole = write_shard(folder / "whole", documents);
  ShardPosition position;
  {
    ShardWriter writer(folder / "part", TokenType::i32);
    writer.add_sequence(documents[0]);
    writer.end_document();
    writer.end_document();
    writer.sync();
    position = writer.position();
    writer.add_sequence(documents[3]);
    writer.sync();
  }
  ShardWriter writer(folder / "part", TokenType::i32, position);
  writer.add_sequence(documents[2]);
  writer.end_document();
  writer.add_sequence(documents[3]);
  writer.end_document();
  ShardInfo info;
  info.tokenizer_digest = "xxh3-128:test";
  info.vocabulary_size = 1 << 30;
  writer.finish(info);
  publish_shard(folder / "part");
  for (const char* ending : {".bin", ".idx", ".json"}) {
    CHECK(read_file(folder / "part" + ending) == read_file(whole + ending));
  }
  CHECK(failure_of([&] {
          ShardWriter(folder / "none", TokenType::i32, position);
        }).starts_with("3 "));
}

}  // namespace zaya
