// SPDX-License-Identifier: Apache-2.0
#include "data/data_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/rng.h"
#include "data/document.h"
#include "data/prepare.h"
#include "text/bpe_train.h"
#include "text/tokenizer.h"

namespace zaya {

namespace {

constexpr Index kWords = 60000, kWordsPerDocument = 300;

// Words of one to five syllables, short ones first.
std::vector<std::string> made_up_words(const Rng& rng) {
  static constexpr const char* kSyllables[] = {"ba", "the",  "in", "sto", "re",  "ing", "al",
                                               "mo", "tion", "er", "ka",  "lis", "per", "con",
                                               "sa", "men",  "ti", "vo",  "und", "qua"};
  std::vector<std::string> words(kWords);
  std::uint64_t counter = 0;
  for (Index i = 0; i < kWords; ++i) {
    const double rank = static_cast<double>(i + 1);
    const Index syllables = 1 + static_cast<Index>(std::log10(rank));
    for (Index j = 0; j < syllables; ++j) words[i] += kSyllables[rng.below(20, counter++)];
  }
  return words;
}

// JSONL documents of words by Zipf's law.
void write_text(const std::string& path, Index num_bytes) {
  const Rng rng(1, "text");
  const std::vector<std::string> words = made_up_words(Rng(1, "words"));
  FileWriter writer(path);
  std::uint64_t counter = 0;
  while (writer.position() < num_bytes) {
    std::string text;
    for (Index i = 0; i < kWordsPerDocument; ++i) {
      const double rank = std::pow(static_cast<double>(kWords), rng.uniform(counter++));
      text += words[static_cast<Index>(rank) - 1];
      text += i % 13 == 12 ? ". " : " ";
    }
    writer.write("{\"text\":" + json_quote(text) + "}\n");
  }
  writer.close();
}

double seconds_of(FunctionRef<void()> body) {
  const double began = monotonic_seconds();
  body();
  return monotonic_seconds() - began;
}

void read_and_hash(const std::string& path) {
  const FileReader reader(path);
  std::vector<char> block(1 << 20);
  Hasher hasher;
  for (Index at = 0; at < reader.size();) {
    const Index count = std::min<Index>(static_cast<Index>(block.size()), reader.size() - at);
    reader.read_at(at, block.data(), static_cast<std::size_t>(count));
    hasher.add(block.data(), static_cast<std::size_t>(count));
    at += count;
  }
  static_cast<void>(hasher.finish());
}

void train_tokenizer(const DataBenchOptions& options, const std::string& input,
                     const std::string& output, ThreadPool& pool) {
  DocumentReader reader(find_inputs({input}), ReadOptions{});
  Document document;
  BpeTrainOptions training;
  training.vocabulary_size = options.vocabulary_size;
  const auto next = [&](std::string_view& text) {
    if (!reader.next(document)) return false;
    text = document.text;
    return true;
  };
  const std::optional<TrainedBpe> trained = train_bpe(training, next, pool);
  if (!trained) throw Error{ErrorKind::usage, "bench data: stopped by a signal"};
  write_file_atomically(output, tokenizer_json(*trained));
}

BenchRow speed_row(std::string name, double bytes, const std::vector<double>& seconds) {
  const Timing t = summarize(seconds);
  BenchRow row;
  row.name = std::move(name);
  row.value = bytes / t.median * 1e-6;
  row.unit = "MB/s";
  row.spread = t.spread();
  return row;
}

}  // namespace

std::vector<BenchRow> bench_data(const DataBenchOptions& options, const std::string& folder,
                                 ThreadPool& pool) {
  std::string input = options.input;
  if (input.empty()) {
    input = join_path(folder, "text.jsonl");
    write_text(input, options.text_bytes);
  }
  const double bytes = static_cast<double>(file_size(input));
  const std::string tokenizer = join_path(folder, "tokenizer.json");
  std::vector<BenchRow> rows;
  BenchRow training;
  training.name = fmt::format("tokenizer train, {} MB, {} tokens", std::llround(bytes * 1e-6),
                              options.vocabulary_size);
  training.value = seconds_of([&] { train_tokenizer(options, input, tokenizer, pool); });
  training.unit = "s";
  rows.push_back(training);

  ThreadPool one(1);
  PrepareOptions prepare_options;
  prepare_options.inputs = {input};
  prepare_options.tokenizer = tokenizer;
  prepare_options.output = join_path(folder, "tokens");
  prepare_options.overwrites = true;
  std::vector<double> hashing, single, parallel;
  for (Index i = 0; i < options.rounds; ++i) {
    hashing.push_back(seconds_of([&] { read_and_hash(input); }));
    single.push_back(seconds_of([&] { prepare(prepare_options, one); }));
    parallel.push_back(seconds_of([&] { prepare(prepare_options, pool); }));
  }
  rows.push_back(speed_row("read and hash", bytes, hashing));
  rows.push_back(speed_row("prepare, one thread", bytes, single));
  rows.push_back(
      speed_row(fmt::format("prepare, {} threads", pool.num_threads()), bytes, parallel));
  BenchRow gain;
  gain.name = "prepare: all threads over one";
  gain.value = summarize(single).median / summarize(parallel).median;
  gain.unit = "x";
  rows.push_back(gain);
  return rows;
}

}  // namespace zaya
