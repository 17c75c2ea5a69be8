// SPDX-License-Identifier: Apache-2.0
#include "data/prepare.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/fault_point.h"
#include "base/json.h"
#include "base/stop.h"
#include "data/testing.h"
#include "text/tokenizer.h"

namespace zaya {

namespace {

constexpr std::int32_t kEos = 257;

// A tokenizer without merges: byte b becomes the id b + 1, "<eos>" is 257 and special.
std::string write_tokenizer(const TestFolder& folder, bool has_eos = true, Index extra_id = 0) {
  Json vocab = Json::object();
  vocab.set("<unk>", 0);
  static constexpr char kHex[] = "0123456789ABCDEF";
  for (int b = 0; b < 256; ++b) {
    vocab.set(std::string("<0x") + kHex[b / 16] + kHex[b % 16] + ">", b + 1);
  }
  const auto added = [](Index id, const char* content) {
    Json token = Json::object();
    token.set("id", id);
    token.set("content", content);
    for (const char* key : {"single_word", "lstrip", "rstrip", "normalized"}) token.set(key, false);
    token.set("special", true);
    return token;
  };
  Json tokens = Json::array();
  tokens.push(added(kEos, "<eos>"));
  tokens.push(added(kEos + 1, "<other>"));
  if (extra_id > 0) vocab.set("extra", extra_id);
  const std::string json =
      R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": )" +
      tokens.dump() +
      R"(, "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder":
      {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}, "model":
      {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
      "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
      "vocab": )" +
      vocab.dump() + R"(, "merges": []}})";
  folder.write("tokenizer_config.json",
               has_eos ? "{\"eos_token\": \"<eos>\"}" : "{\"eos_token\": null}");
  return folder.write("tokenizer.json", json);
}

std::vector<std::int32_t> ids_of(const std::string& text, std::int32_t eod = kEos) {
  std::vector<std::int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c) + 1);
  if (eod >= 0) ids.push_back(eod);
  return ids;
}

// The tokens of each document.
std::vector<std::vector<std::int32_t>> documents_of(const std::string& prefix) {
  const Shard shard(prefix);
  verify_shard(shard);
  std::vector<std::vector<std::int32_t>> documents;
  for (Index d = 0; d < shard.index().num_documents(); ++d) {
    documents.emplace_back();
    for (Index s = shard.index().document_begin(d); s < shard.index().document_begin(d + 1); ++s) {
      std::vector<std::int32_t>& out = documents.back();
      const std::size_t before = out.size();
      out.resize(before + static_cast<std::size_t>(shard.index().length(s)));
      shard.read(s, 0, shard.index().length(s), out.data() + before);
    }
  }
  return documents;
}

PrepareResult run(const PrepareOptions& options, int num_threads = 2) {
  ThreadPool pool(num_threads);
  return prepare(options, pool);
}

// Runs in a process of its own with an armed fault point; its exit status.
int run_with_fault(const PrepareOptions& options, const std::string& fault) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int code = 0;
    try {
      arm_fault_point(fault);
      run(options);
    } catch (const Error& error) {
      code = exit_code(error.kind());
    }
    _exit(code);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string bytes_of(const std::vector<std::string>& prefixes) {
  std::string bytes;
  for (const std::string& prefix : prefixes) {
    for (const char* ending : {".bin", ".idx", ".json"}) bytes += read_file(prefix + ending);
  }
  return bytes;
}

// Three inputs with `count` documents in all, some empty, some equal, one file bad in the middle.
PrepareOptions corpus(const TestFolder& folder, int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    Json object = Json::object();
    object.set("text", i % 9 == 0 ? "" : "document " + std::to_string(i / 2 * 37 % 1001));
    lines += object.dump() + "\n";
    if (i % 50 == 7) lines += "{broken\n";
    if (i == count / 3 || i == count - 1) {
      folder.write("corpus/" + std::to_string(i) + ".jsonl", lines);
      lines.clear();
    }
  }
  folder.write("corpus/z.txt", "plain text\n\nwith two paragraphs\n");
  PrepareOptions options;
  options.inputs = {folder / "corpus"};
  options.tokenizer = write_tokenizer(folder);
  options.output = folder / "out/tokens";
  options.reading.skips_bad = true;
  options.chunk_bytes = 100;
  options.journal_every_tokens = 600;
  return options;
}

}  // namespace

TEST_CASE("text becomes tokens, an empty text a document without sequence") {
  const TestFolder folder;
  PrepareOptions options;
  options.inputs = {folder.write("a.jsonl", R"({"text": "ab"})"
                                            "\n"
                                            R"({"text": ""})"
                                            "\n"),
                    folder.write("b.txt", "c<eos>d\n")};
  options.tokenizer = write_tokenizer(folder);
  options.output = folder / "t";
  const PrepareResult result = run(options);
  CHECK(!result.was_complete);
  auto special = ids_of("c", kEos);
  const auto rest = ids_of("d\n");
  special.insert(special.end(), rest.begin(), rest.end());
  CHECK(documents_of(folder / "t") ==
        std::vector<std::vector<std::int32_t>>{ids_of("ab"), {}, special});
  const Shard shard(folder / "t");
  CHECK(shard.index().type() == TokenType::u16);
  CHECK(shard.index().num_sequences() == 2);
  REQUIRE(shard.info());
  const ShardInfo& info = *shard.info();
  CHECK(info.tokenizer_digest == digest_text(Tokenizer::load(options.tokenizer).digest()));
  CHECK(info.vocabulary_size == 259);
  CHECK(info.eod_id == kEos);
  CHECK(info.appends_eod);
  CHECK(info.largest_id == kEos);
  REQUIRE(info.sources.size() == 2);
  CHECK(info.sources[0] == ShardInfo::Source{options.inputs[0], 28, 2, 3});
  CHECK(info.sources[1].tokens == 5);
  CHECK(list_directory(folder / "").size() == 7);
}

TEST_CASE("end and start tokens are chosen by token, by id, or left out") {
  const TestFolder folder;
  PrepareOptions options;
  options.inputs = {folder.write("a.txt", "x<eos>")};
  options.tokenizer = write_tokenizer(folder);
  options.output = folder / "t";
  options.overwrites = true;
  options.has_special_in_text = false;
  options.eod = "<other>";
  options.bos = "257";
  run(options);
  auto expected = ids_of("x<eos>", kEos + 1);
  expected.insert(expected.begin(), kEos);
  CHECK(documents_of(folder / "t")[0] == expected);
  options.bos.clear();
  options.appends_eod = false;
  run(options);
  CHECK(documents_of(folder / "t")[0] == ids_of("x<eos>", -1));
  options.eod = "259";
  CHECK(failure_of([&] { run(options); }).starts_with("2 --eod 259: ids go from 0 to 258"));
  options.eod = "<eso>";
  const std::string message = failure_of([&] { run(options); });
  CHECK(message.find("did you mean <eos>?; candidates: <eos> (257), <other> (258)") !=
        std::string::npos);
}

TEST_CASE("without an end token the candidates are listed, and nothing is written") {
  const TestFolder folder;
  PrepareOptions options;
  options.inputs = {folder.write("a.txt", "x")};
  options.tokenizer = write_tokenizer(folder, false);
  options.output = folder / "t";
  const std::string message = failure_of([&] { run(options); });
  CHECK(message.starts_with("2 "));
  CHECK(message.find("--eod TOKEN|ID") != std::string::npos);
  CHECK(message.find("<other> (258)") != std::string::npos);
  CHECK(!is_file(folder / "t.bin.partial"));
}

TEST_CASE("a vocabulary of 65500 ids takes four bytes a token") {
  const TestFolder folder;
  PrepareOptions options;
  options.inputs = {folder.write("a.txt", "x")};
  options.output = folder / "t";
  options.overwrites = true;
  options.tokenizer = write_tokenizer(folder, true, 65498);
  run(options);
  CHECK(Shard(folder / "t").index().type() == TokenType::u16);
  options.tokenizer = write_tokenizer(folder, true, 65499);
  run(options);
  CHECK(Shard(folder / "t").index().type() == TokenType::i32);
}

TEST_CASE("the number of threads and the size of chunks change no byte") {
  const TestFolder folder;
  PrepareOptions options = corpus(folder, 600);
  options.shares = {0.8, 0.2};
  const PrepareResult one = run(options, 1);
  const std::string expected = bytes_of(one.prefixes);
  CHECK(one.report.num_bad == 12);
  options.overwrites = true;
  for (const int threads : {2, 7}) {
    for (const Index chunk_bytes : {1, 3000, 1 << 24}) {
      options.chunk_bytes = chunk_bytes;
      const PrepareResult other = run(options, threads);
      CHECK(bytes_of(other.prefixes) == expected);
      CHECK(other.report == one.report);
    }
  }
}

TEST_SUITE("slow") {
  TEST_CASE("killed anywhere and started again, the same bytes come out") {
    for (const RepeatFilter::Unit repeats :
         {RepeatFilter::Unit::none, RepeatFilter::Unit::document}) {
      const TestFolder folder;
      PrepareOptions options = corpus(folder, 400);
      options.shares = {9, 1};
      options.repeats = repeats;
      const PrepareResult whole = run(options);
      const std::string expected = bytes_of(whole.prefixes);
      int num_continued = 0;
      for (const std::string fault :
           {"prepare.chunk=kill@1", "prepare.chunk=kill@5", "prepare.chunk=kill@9",
            "shard.write=kill@1", "shard.write=kill@8", "shard.flush=kill@4", "journal.open=kill@2",
            "journal.write=kill@2", "journal.flush=kill@3", "index.write=kill@1",
            "index.write=kill@2", "side.write=kill@2", "publish.rename=kill@1",
            "publish.rename=kill@2", "publish.rename=kill@3", "publish.rename=kill@5",
            "prepare.published=kill@1"}) {
        CAPTURE(fault);
        remove_all(folder / "out");
        CHECK(run_with_fault(options, fault) == 137);
        CHECK(run_with_fault(options, "prepare.chunk=kill@3") < 255);  // a second death, or the end
        const PrepareResult again = run(options);
        CHECK(bytes_of(again.prefixes) == expected);
        CHECK(list_directory(folder / "out").size() == 6);
        num_continued += again.has_continued ? 1 : 0;
        if (again.was_complete) continue;
        CHECK(again.report == whole.report);
        CHECK(again.repeated_documents == whole.repeated_documents);
      }
      CHECK(num_continued >= 8);
    }
  }

}  // TEST_SUITE("slow")

TEST_CASE("a full disk is said with exit code 6, and the work goes on when there is room") {
  const TestFolder folder;
  const PrepareOptions options = corpus(folder, 400);
  const std::string expected = bytes_of(run(options).prefixes);
  for (const std::string fault :
       {"shard.write=enospc@2", "journal.write=enospc@2", "index.write=enospc@1",
        "side.write=enospc@1", "shard.flush=eio@2"}) {
    CAPTURE(fault);
    remove_all(folder / "out");
    CHECK(run_with_fault(options, fault) == 6);
    CHECK(!is_file(options.output + ".idx"));
    CHECK(bytes_of(run(options).prefixes) == expected);
  }
}

TEST_CASE("a signal stops after saving, and the next run goes on") {
  const TestFolder folder;
  PrepareOptions options = corpus(folder, 300);
  const std::string expected = bytes_of(run(options).prefixes);
  remove_all(folder / "out");
  set_stop_signal(SIGTERM);
  const PrepareResult stopped = run(options);
  set_stop_signal(0);
  CHECK(stopped.stop_signal == SIGTERM);
  CHECK(is_file(options.output + ".journal"));
  CHECK(!is_file(options.output + ".idx"));
  const PrepareResult again = run(options);
  CHECK(again.has_continued);
  CHECK(bytes_of(again.prefixes) == expected);
}

TEST_CASE("inputs that changed since the kill, and a damaged journal, mean a fresh start") {
  const TestFolder folder;
  const PrepareOptions options = corpus(folder, 300);
  CHECK(run_with_fault(options, "prepare.chunk=kill@9") == 137);
  REQUIRE(is_file(options.output + ".journal"));
  folder.write("corpus/z.txt", "other text of the same length...\n");
  const PrepareResult fresh = run(options);
  CHECK(!fresh.has_continued);
  const std::string expected = bytes_of(fresh.prefixes);
  remove_all(folder / "out");
  CHECK(run_with_fault(options, "prepare.chunk=kill@9") == 137);
  folder.write("out/tokens.journal", "{\"arguments_digest\": \"");
  const PrepareResult again = run(options);
  CHECK(!again.has_continued);
  CHECK(bytes_of(again.prefixes) == expected);
}

TEST_CASE("a finished output is not made again, another one is not overwritten unasked") {
  const TestFolder folder;
  PrepareOptions options = corpus(folder, 60);
  const std::string expected = bytes_of(run(options).prefixes);
  const PrepareResult again = run(options, 5);
  CHECK(again.was_complete);
  REQUIRE(again.infos.size() == 1);
  CHECK(again.infos[0].documents == 61);
  CHECK(bytes_of(again.prefixes) == expected);

  options.appends_eod = false;
  CHECK(failure_of([&] { run(options); }).find("--overwrite") != std::string::npos);
  // An unfinished run with these options must not open the door either.
  options.overwrites = true;
  CHECK(run_with_fault(options, "prepare.chunk=kill@4") == 137);
  options.overwrites = false;
  options.appends_eod = true;
  CHECK(run(options).was_complete);
  CHECK(bytes_of(again.prefixes) == expected);
  options.overwrites = true;
  options.appends_eod = false;
  CHECK(bytes_of(run(options).prefixes) != expected);
}

TEST_CASE("an output that would overwrite an input or a foreign file is refused") {
  const TestFolder folder;
  PrepareOptions options;
  options.tokenizer = write_tokenizer(folder);
  options.inputs = {folder.write("a.json", "{\"text\": \"x\"}\n")};
  options.output = folder / "a";
  CHECK(failure_of([&] { run(options); }).find("is an input") != std::string::npos);
  folder.write("b.json", "{}");
  options.output = folder / "b";
  options.overwrites = true;
  CHECK(failure_of([&] { run(options); }).find("no side file of a token file") !=
        std::string::npos);
}

TEST_CASE("shares go by the text of a document alone") {
  const TestFolder folder;
  PrepareOptions options = corpus(folder, 600);
  options.shares = {0.7, 0.2, 0.1};
  const PrepareResult result = run(options);
  CHECK(result.prefixes == std::vector<std::string>{options.output + ".train",
                                                    options.output + ".validation",
                                                    options.output + ".test"});
  Index total = 0;
  for (int i = 0; i < 3; ++i) {
    total += result.infos[i].documents;
    for (const auto& ids : documents_of(result.prefixes[i])) {
      std::string text;
      for (std::size_t t = 0; t + 1 < ids.size(); ++t) text += static_cast<char>(ids[t] - 1);
      CHECK(share_of(text, options.shares) == i);
      CHECK(share_of(text, {7, 2, 1}) == i);
    }
  }
  CHECK(total == 601);
  int counts[3] = {0, 0, 0};
  for (int i = 0; i < 10000; ++i) ++counts[share_of(std::to_string(i), options.shares)];
  // Five standard deviations of a binomial count: sqrt(10000 * 0.7 * 0.3) = 46.
  CHECK(std::abs(counts[0] - 7000) < 230);
  CHECK(std::abs(counts[1] - 2000) < 200);
}

TEST_CASE("wrong shares are refused") {
  const TestFolder folder;
  PrepareOptions options = corpus(folder, 10);
  for (const std::vector<double>& shares :
       {std::vector<double>{1}, {0.5, 0}, {1, -1}, {1, 1, 1, 1}}) {
    options.shares = shares;
    CHECK(failure_of([&] { run(options); }).starts_with("2 --split"));
  }
}

TEST_CASE("bad input ends the work with file and line unless told otherwise") {
  const TestFolder folder;
  PrepareOptions options;
  options.tokenizer = write_tokenizer(folder);
  options.output = folder / "t";
  const std::string path = folder.write("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"\xff\"}\n");
  options.inputs = {path};
  CHECK(failure_of([&] { run(options); }).starts_with("3 " + path + ":2: invalid UTF-8"));
  CHECK(!is_file(folder / "t.idx"));
  options.reading.replaces_invalid_utf8 = true;
  CHECK(run(options).report.num_repaired == 1);
  CHECK(documents_of(folder / "t")[1] == ids_of("\xef\xbf\xbd"));
}

TEST_CASE("repeated documents and paragraphs are left out and counted") {
  const TestFolder folder;
  PrepareOptions options;
  options.tokenizer = write_tokenizer(folder);
  options.output = folder / "t";
  options.overwrites = true;
  std::string lines;
  for (const char* text : {"a\n\nb", "", "b\n \n\nc", "a\n\nb", "", "c", "a\n\n\nb\n"}) {
    Json object = Json::object();
    object.set("text", text);
    lines += object.dump() + "\n";
  }
  options.inputs = {folder.write("a.jsonl", lines)};
  options.repeats = RepeatFilter::Unit::document;
  PrepareResult result = run(options);
  CHECK(result.repeated_documents == 1);
  CHECK(documents_of(folder / "t").size() == 6);
  options.repeats = RepeatFilter::Unit::paragraph;
  result = run(options);
  CHECK(result.repeated_documents == 3);
  CHECK(result.repeated_paragraphs == 6);
  CHECK(documents_of(folder / "t") ==
        std::vector<std::vector<std::int32_t>>{ids_of("a\n\nb"), {}, ids_of("c"), {}});
}

}  // namespace zaya
