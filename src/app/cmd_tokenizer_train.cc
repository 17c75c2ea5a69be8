// SPDX-License-Identifier: Apache-2.0
//
// `zaya tokenizer train`: a byte-level byte-pair tokenizer from text and JSONL files.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "app/cmd_tokenizer.h"
#include "base/cli.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/stop.h"
#include "data/document.h"
#include "text/bpe_train.h"
#include "text/tokenizer.h"

namespace zaya {

namespace {

struct TrainCommand {
  std::vector<std::string> inputs;
  std::string output;
  std::string invalid_utf8 = "error";
  Index threads = 0;
  bool is_json = false;
  ReadOptions reading;
  BpeTrainOptions training;
};

void declare(Command& command, TrainCommand& c) {
  command.option("--input", c.inputs, "Text and JSONL files (.gz and .zst too), or folders.", true);
  command.option("--vocabulary-size", c.training.vocabulary_size,
                 "Number of tokens, special ones and the 256 bytes included.");
  command.option("--output", c.output, "Folder for tokenizer.json, or a path that ends in .json.",
                 true);
  command.option("--min-count", c.training.min_count, "Pairs that are rarer are not merged.");
  command.option("--end-of-text", c.training.end_of_text, "The token that ends a document.");
  command.option("--padding", c.training.padding, "The token that fills rows up.");
  command.option("--special", c.training.more_special, "Further special tokens.");
  command.option("--text-key", c.reading.text_key, "Member of a JSONL line that holds the text.");
  command.choice("--invalid-utf8", c.invalid_utf8, {"error", "replace"},
                 "What to do with text that is not UTF-8.");
  command.flag("--skip-bad", c.reading.skips_bad, "Leaves out documents that can't be read.");
  command.option("--most-words", c.training.counting.most_words,
                 "Different words kept in memory; beyond that the rarest are forgotten.");
  command.option("--threads", c.threads, "Number of threads; 0: all of this machine.");
  command.flag("--json", c.is_json, "Prints the result as JSON.");
}

// Reads all documents once; the trainer sees them one by one.
std::optional<TrainedBpe> train(const TrainCommand& c, ReadReport& report) {
  std::vector<InputFile> files = find_inputs(c.inputs);
  Index num_bytes = 0;
  for (const InputFile& file : files) num_bytes += file.bytes;
  ReadOptions reading = c.reading;
  reading.replaces_invalid_utf8 = c.invalid_utf8 == "replace";
  DocumentReader reader(std::move(files), reading);
  Document document;
  Progress progress("counting words", Progress::Unit::bytes, static_cast<double>(num_bytes));
  const auto next = [&](std::string_view& text) {
    progress.update(static_cast<double>(reader.consumed()));
    if (!reader.next(document)) return false;
    text = document.text;
    return true;
  };
  ThreadPool pool(c.threads > 0 ? static_cast<int>(c.threads) : usable_threads());
  std::optional<TrainedBpe> trained = train_bpe(c.training, next, pool);
  report = reader.report();
  return trained;
}

void tell_losses(const TrainCommand& c, const TrainedBpe& trained, const ReadReport& report) {
  const WordCounter::Result& counts = trained.counts;
  if (counts.num_bytes == 0) {
    throw Error{ErrorKind::usage, "the input has no text to train on: give other files"};
  }
  if (report.num_bad > 0) {
    log_warning(fmt::format("{} bad documents were left out; the first: {}", report.num_bad,
                            report.first_bad.empty() ? "" : report.first_bad[0]));
  }
  if (report.num_repaired > 0) {
    log_warning(fmt::format("{} documents had text that is not UTF-8", report.num_repaired));
  }
  if (counts.num_too_long > 0) {
    log_warning(fmt::format("{} words of more than {} bytes were left out", counts.num_too_long,
                            c.training.counting.longest_word));
  }
  if (counts.forgotten_below > 0) {
    log_warning(
        fmt::format("more than {} different words: those with less than some {} "
                    "occurrences were forgotten; --most-words raises the limit",
                    c.training.counting.most_words, counts.forgotten_below));
  }
  const auto num_tokens = static_cast<Index>(trained.tokens.size());
  if (num_tokens < c.training.vocabulary_size) {
    log_warning(
        fmt::format("the text gives only {} tokens of {} asked for: no other pair occurs "
                    "{} times",
                    num_tokens, c.training.vocabulary_size, c.training.min_count));
  }
}

}  // namespace

int command_tokenizer_train(Arguments arguments) {
  TrainCommand c;
  Command command("tokenizer train",
                  "Trains a byte-level byte-pair tokenizer in the Hugging Face form.",
                  "zaya tokenizer train --input corpus/ --vocabulary-size 32000 --output out/");
  declare(command, c);
  if (!command.parse(arguments)) return 0;
  constexpr Index kMostThreads = 1024;
  if (c.threads < 0 || c.threads > kMostThreads) {
    throw Error{ErrorKind::usage, fmt::format("--threads must be 0 to {}", kMostThreads)};
  }
  if (c.training.min_count < 1 || c.training.counting.most_words < 1000) {
    throw Error{ErrorKind::usage, "--min-count must be 1 or more, --most-words 1000 or more"};
  }
  const bool is_file_name = c.output.ends_with(".json");
  const std::string folder = is_file_name ? directory_name(c.output) : c.output;
  const std::string path = is_file_name ? c.output : join_path(c.output, "tokenizer.json");
  make_directories(folder);

  ReadReport report;
  const std::optional<TrainedBpe> trained = train(c, report);
  if (!trained) return 128 + stop_signal();
  tell_losses(c, *trained, report);
  const std::string json = tokenizer_json(*trained);
  // What was written is read the way every user of it will.
  const Tokenizer tokenizer = Tokenizer::from_memory(json, path);
  write_file_atomically(path, json);
  write_file_atomically(join_path(folder, "tokenizer_config.json"),
                        tokenizer_config_json(*trained));

  Json result = Json::object();
  result.set("tokenizer", path);
  result.set("vocabulary_size", Json(tokenizer.vocabulary_size()));
  result.set("merges", Json(static_cast<std::int64_t>(trained->merges.size())));
  result.set("documents", Json(trained->counts.num_documents));
  result.set("bytes", Json(trained->counts.num_bytes));
  result.set("distinct_words", Json(trained->counts.num_words));
  result.set("digest", "xxh3-128:" + to_hex(tokenizer.digest()));
  if (c.is_json) {
    std::fputs((result.dump() + "\n").c_str(), stdout);
    return 0;
  }
  std::fputs(fmt::format("{}: {} tokens from {} documents, {} bytes, {} different words\n", path,
                         tokenizer.vocabulary_size(), trained->counts.num_documents,
                         trained->counts.num_bytes, trained->counts.num_words)
                 .c_str(),
             stdout);
  return 0;
}

}  // namespace zaya
