// SPDX-License-Identifier: Apache-2.0
#include "data/import.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/fault_point.h"
#include "base/stop.h"
#include "data/testing.h"

namespace zaya {

namespace {

const std::string kData = std::string(ZAYA_TEST_DATA) + "/";

using Tokens = std::vector<std::int64_t>;

// Sequences of each document.
std::vector<std::vector<Tokens>> documents_of(const std::string& prefix) {
  const Shard shard(prefix);
  verify_shard(shard);
  std::vector<std::vector<Tokens>> documents;
  for (Index d = 0; d < shard.index().num_documents(); ++d) {
    documents.emplace_back();
    for (Index s = shard.index().document_begin(d); s < shard.index().document_begin(d + 1); ++s) {
      Tokens& sequence =
          documents.back().emplace_back(static_cast<std::size_t>(shard.index().length(s)));
      shard.read(s, 0, shard.index().length(s), sequence.data());
    }
  }
  return documents;
}

Tokens tokens_at(const Json& list) {
  Tokens tokens;
  for (const Json& item : list.items()) tokens.push_back(item.as_integer());
  return tokens;
}

Tokens joined(const std::vector<std::vector<Tokens>>& documents) {
  Tokens all;
  for (const auto& document : documents) {
    for (const Tokens& sequence : document) {
      all.insert(all.end(), sequence.begin(), sequence.end());
    }
  }
  return all;
}

ImportOptions options_of(const std::vector<std::string>& inputs, const std::string& output) {
  ImportOptions options;
  options.inputs = inputs;
  options.output = output;
  return options;
}

std::string failure_of_import(const ImportOptions& options) {
  return failure_of([&] { import_tokens(options); });
}

// An llm.c shard of version 1.
std::string llmc_of(const std::vector<std::uint16_t>& tokens) {
  std::string bytes(1024 + 2 * tokens.size(), '\0');
  const std::int32_t header[] = {20240520, 1, static_cast<std::int32_t>(tokens.size())};
  std::memcpy(bytes.data(), header, sizeof header);
  std::memcpy(bytes.data() + 1024, tokens.data(), 2 * tokens.size());
  return bytes;
}

}  // namespace

TEST_CASE("every sample file is imported or refused as its verdict says") {
  const TestFolder folder;
  for (const std::string kind : {"llmc-bin", "npy"}) {
    const std::string path = kData + kind + "/expected.json";
    const Json expected = Json::parse(read_file(path), path);
    for (const auto& [name, info] : expected.members()) {
      CAPTURE(name);
      ImportOptions options = options_of({kData + kind + "/" + name}, folder / "out/t");
      const bool is_good = info.at("verdict").as_string() == "accept";
      for (const std::string format : {"auto", kind == "npy" ? "npy" : "llmc"}) {
        options.format = format;
        const std::string failure = failure_of_import(options);
        CHECK(failure.starts_with(is_good ? "no error" : "3 "));
        const bool has_choices = info.find("kind") != nullptr;
        if (is_good && !has_choices) {
          const char* key = kind == "npy" ? "tokens_in_C_order" : "tokens";
          CHECK(joined(documents_of(folder / "out/t")) == tokens_at(info.at(key)));
        }
        // A refusal leaves nothing behind.
        if (!is_good && is_directory(folder / "out")) {
          CHECK(list_directory(folder / "out").empty());
        }
        remove_all(folder / "out");
      }
    }
  }
}

TEST_CASE("documents of llm.c begin with their id and go on in the next shard") {
  const TestFolder folder;
  const std::string a = folder.write("s/x_0.bin", llmc_of({50256, 1, 2, 50256, 3}));
  const std::string b = folder.write("s/x_1.bin", llmc_of({4, 50256, 50256, 5}));
  folder.write("s/.hidden.bin", "x");
  using Documents = std::vector<std::vector<Tokens>>;
  const Documents expected = {{{50256, 1, 2}}, {{50256, 3, 4}}, {{50256}}, {{50256, 5}}};
  for (const std::string& input : {folder / "s", folder / "s/x_?.bin"}) {
    ImportOptions options = options_of({input}, folder / "t");
    options.overwrites = true;
    const ShardInfo info = import_tokens(options).info;
    CHECK(documents_of(folder / "t") == expected);
    CHECK(info.bos_id == 50256);
    CHECK(info.documents == 4);
    CHECK(info.tokens == 9);
    REQUIRE(info.sources.size() == 2);
    CHECK(info.sources[0].path == a);
    CHECK(info.sources[0].documents == 1);
    CHECK(info.sources[1].path == b);
    CHECK(info.sources[1].documents == 3);
    CHECK(info.sources[1].tokens == 4);
  }
  // A first shard that begins inside a document: not every document begins with the id.
  ImportOptions second = options_of({b}, folder / "u");
  CHECK(import_tokens(second).info.bos_id == -1);
  CHECK(documents_of(folder / "u").size() == 3);
  CHECK(Shard(folder / "u").index().type() == TokenType::u16);
}

TEST_CASE("an end-of-document id cuts streams and rows alike") {
  const TestFolder folder;
  const std::string a = folder.write("a.bin", llmc_of({1, 2, 9, 9, 3}));
  const std::string b = folder.write("b.bin", llmc_of({4, 9}));
  ImportOptions options = options_of({a, b}, folder / "t");
  options.eod_id = 9;
  const ShardInfo info = import_tokens(options).info;
  CHECK(documents_of(folder / "t") ==
        std::vector<std::vector<Tokens>>{{{1, 2, 9}}, {{9}}, {{3, 4, 9}}});
  CHECK(info.eod_id == 9);
  CHECK(info.appends_eod);
  options.inputs = {a};
  options.overwrites = true;
  CHECK(!import_tokens(options).info.appends_eod);
  CHECK(documents_of(folder / "t").back() == std::vector<Tokens>{{3}});

  options.inputs = {kData + "npy/u16_2d.npy"};
  options.eod_id = 257;  // in the middle of the second row
  import_tokens(options);
  const auto cut = documents_of(folder / "t");
  REQUIRE(cut.size() == 2);
  CHECK(cut[0][0].back() == 257);
  CHECK(cut[0][0].size() == 15);
  CHECK(cut[1][0].size() == 21);
}

TEST_CASE("rows and samples are documents, streams are one") {
  const TestFolder folder;
  import_tokens(options_of({kData + "npy/u16_2d.npy"}, folder / "rows"));
  CHECK(documents_of(folder / "rows").size() == 4);
  CHECK(documents_of(folder / "rows")[1][0].size() == 9);
  import_tokens(options_of({kData + "npy/u16_1d.npy", kData + "npy/i32_1d.npy"}, folder / "two"));
  CHECK(documents_of(folder / "two").size() == 2);
  CHECK(Shard(folder / "two").index().type() == TokenType::i32);
  for (const char* input : {"mds", "mds/index.json"}) {
    ImportOptions options = options_of({kData + input}, folder / "mds");
    options.overwrites = true;
    import_tokens(options);
    const auto samples = documents_of(folder / "mds");
    REQUIRE(samples.size() == 7);
    CHECK(samples[6][0] == Tokens{210909, 35494, 162194, 14703, 9159, 231616});
  }
}

TEST_CASE("long streams are cut into sequences of one document") {
  const TestFolder folder;
  ImportOptions options = options_of({kData + "npy/u16_1d.npy"}, folder / "t");
  options.max_sequence_tokens = 10;
  import_tokens(options);
  const auto documents = documents_of(folder / "t");
  REQUIRE(documents.size() == 1);
  REQUIRE(documents[0].size() == 4);
  CHECK(documents[0][3].size() == 7);
  options.output = folder / "whole";
  options.max_sequence_tokens = 1 << 20;
  import_tokens(options);
  CHECK(joined(documents) == joined(documents_of(folder / "whole")));
}

TEST_CASE("ids that the vocabulary or the stored type can't hold are refused with their place") {
  const TestFolder folder;
  const std::string path = folder.write("a.bin", llmc_of({5, 7, 300}));
  ImportOptions options = options_of({path}, folder / "t");
  options.vocabulary_size = 300;
  CHECK(failure_of_import(options) == "3 " + path + ": token 2 is 300; the vocabulary has 300 ids");
  options.vocabulary_size = 301;
  CHECK(import_tokens(options).info.vocabulary_size == 301);
  options.overwrites = true;
  options.vocabulary_size = 70000;
  import_tokens(options);
  CHECK(Shard(folder / "t").index().type() == TokenType::i32);
  std::string negative = read_file(kData + "npy/i32_1d.npy");
  negative.back() = '\xff';
  options = options_of({folder.write("n.npy", negative)}, folder / "n");
  CHECK(failure_of_import(options).find("token 19 is -") != std::string::npos);
}

TEST_CASE("multiple-choice examples become lines of JSON") {
  const TestFolder folder;
  const ImportOptions options = options_of({kData + "llmc-bin/hellaswag_eval.bin"}, folder / "h");
  CHECK(import_tokens(options).num_choice_examples == 2);
  CHECK(
      read_file(folder / "h.jsonl")
          .starts_with(
              "{\"context_ids\":[10,11,12],\"ending_ids\":[[1,2],[3],[4,5,6],[7]],\"label\":2}\n"));
  CHECK(list_directory(folder / "").size() == 1);
  CHECK(failure_of_import(options).find("--overwrite") != std::string::npos);
  ImportOptions mixed = options;
  mixed.inputs.push_back(kData + "llmc-bin/llama3_v7.bin");
  CHECK(failure_of_import(mixed).starts_with("2 "));
}

TEST_CASE("what can't be imported says what to do") {
  const TestFolder folder;
  const std::string parquet = folder.write("x.parquet", "PAR1....");
  CHECK(failure_of_import(options_of({parquet}, folder / "t")).starts_with("2 " + parquet));
  CHECK(failure_of_import(options_of({parquet}, folder / "t")).find("duckdb -c \"COPY") !=
        std::string::npos);
  CHECK(failure_of_import(options_of({folder.write("x", "words")}, folder / "t"))
            .find("known are llm.c shards") != std::string::npos);
  CHECK(failure_of_import(options_of({folder / "*.bin"}, folder / "t")).find("no file matches") !=
        std::string::npos);
  CHECK(failure_of_import(options_of({folder / ""}, folder / "t")).starts_with("2 "));
  CHECK(failure_of_import(options_of({folder / "absent"}, folder / "t")).starts_with("2 "));
  ImportOptions both = options_of({kData + "npy/u16_1d.npy"}, folder / "t");
  both.eod_id = both.start_id = 1;
  CHECK(failure_of_import(both).find("--document-start") != std::string::npos);
  // The output must not be the input, however it is spelled.
  const std::string shard = folder.write("s.bin", llmc_of({1}));
  ImportOptions self = options_of({folder / "./s.bin"}, folder / "s");
  self.overwrites = true;
  CHECK(failure_of_import(self).find("is an input") != std::string::npos);
  CHECK(read_file(shard) == llmc_of({1}));
  CHECK(failure_of_import(options_of({kData + "npy/u16_1d.npy", shard}, folder / "t"))
            .find("other rules for documents") != std::string::npos);
}

TEST_CASE("a kill or a stop leaves no output, and the next import is whole") {
  const TestFolder folder;
  const ImportOptions options = options_of({kData + "mds"}, folder / "t");
  for (const char* fault : {"import.batch=kill@3", "publish.rename=kill@3", "side.write=kill"}) {
    CAPTURE(fault);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      arm_fault_point(fault);
      import_tokens(options);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WEXITSTATUS(status) == 137);
    CHECK(!is_file(folder / "t.idx"));
    ImportOptions again = options;
    again.overwrites = true;
    CHECK(import_tokens(again).info.documents == 7);
    CHECK(list_directory(folder / "").size() == 3);
    for (const char* ending : {".bin", ".idx", ".json"}) remove_all(folder / "t" + ending);
  }
  set_stop_signal(SIGINT);
  const ImportResult stopped = import_tokens(options);
  set_stop_signal(0);
  CHECK(stopped.stop_signal == SIGINT);
  CHECK(list_directory(folder / "").empty());
}

}  // namespace zaya
