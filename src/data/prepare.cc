// SPDX-License-Identifier: Apache-2.0
#include "data/prepare.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/progress.h"
#include "base/stop.h"
#include "data/chunk_reader.h"
#include "data/prepare_journal.h"
#include "data/shard_writer.h"
#include "text/tokenizer.h"

namespace zaya {

namespace {

// Changes when the bytes that equal arguments give change.
constexpr Index kRuleVersion = 1;
constexpr std::uint64_t kShareSeed = 0x7a61796173686172ull;
constexpr std::size_t kMaxCandidates = 12;

std::string journal_path(const std::string& output) { return output + ".journal"; }

// What decides the bytes of the outputs, worked out before anything is read or written.
struct Plan {
  std::vector<InputFile> files;
  std::optional<Tokenizer> tokenizer;
  TokenType type = TokenType::i32;
  Index eod_id = -1, bos_id = -1;  // -1: none
  std::vector<std::string> prefixes;
  std::string arguments_digest, inputs_digest;
};

std::string candidates(const Tokenizer& tokenizer) {
  const std::vector<std::string> names = tokenizer.special_tokens();
  if (names.empty()) return "the tokenizer has no special tokens";
  std::string text = "candidates: ";
  for (std::size_t i = 0; i < std::min(names.size(), kMaxCandidates); ++i) {
    const std::optional<TokenId> id = tokenizer.id_of(names[i]);
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", names[i], id ? *id : -1);
  }
  if (names.size() > kMaxCandidates) text += fmt::format(", ... ({} in all)", names.size());
  return text;
}

// The id that `text`, digits or a token, stands for.
Index id_of(const Tokenizer& tokenizer, const std::string& option, const std::string& text) {
  Index id = -1;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (failure == std::errc{} && end == text.data() + text.size()) {
    if (id >= 0 && id < tokenizer.vocabulary_size()) return id;
    throw Error{ErrorKind::usage, fmt::format("{} {}: ids go from 0 to {}", option, text,
                                              tokenizer.vocabulary_size() - 1)};
  }
  if (const std::optional<TokenId> found = tokenizer.id_of(text)) return *found;
  throw Error{ErrorKind::usage,
              fmt::format("{} {}: {} has no such token{}; {}", option, text, tokenizer.path(),
                          did_you_mean(text, tokenizer.special_tokens()), candidates(tokenizer))};
}

Index find_eod(const PrepareOptions& options, const Tokenizer& tokenizer) {
  if (!options.eod.empty()) return id_of(tokenizer, "--eod", options.eod);
  if (const std::optional<TokenId> eos = tokenizer.eos()) return *eos;
  if (!options.appends_eod) return -1;
  throw Error{ErrorKind::usage,
              fmt::format("{}: names no end-of-text token; choose one with --eod TOKEN|ID, or use "
                          "--no-append-eod ({})",
                          tokenizer.path(), candidates(tokenizer))};
}

std::string arguments_digest(const PrepareOptions& options, const Plan& plan) {
  Json json = Json::array();
  json.push(kRuleVersion);
  json.push(digest_text(plan.tokenizer->digest()));
  json.push(options.appends_eod ? plan.eod_id : -1);
  json.push(plan.bos_id);
  json.push(options.has_special_in_text);
  json.push(options.reading.text_key);
  json.push(options.reading.replaces_invalid_utf8);
  json.push(options.reading.skips_bad);
  json.push(options.reading.split_blank_lines);
  json.push(static_cast<Index>(options.repeats));
  for (const double share : options.shares) json.push(share);
  for (const InputFile& file : plan.files) {
    json.push(file.path);
    json.push(file.bytes);
  }
  return digest_text(hash128(json.dump()));
}

std::string inputs_digest(const std::vector<InputFile>& files) {
  Hasher hasher;
  for (const InputFile& file : files) {
    hasher.add(&file.bytes, sizeof file.bytes);
    hasher.add(&file.modified_ns, sizeof file.modified_ns);
  }
  return digest_text(hasher.finish());
}

void check_outputs_are_no_inputs(const Plan& plan) {
  for (const std::string& prefix : plan.prefixes) {
    for (const std::string& path : {bin_path(prefix), idx_path(prefix), info_path(prefix)}) {
      for (const InputFile& file : plan.files) {
        if (file.path != path) continue;
        throw Error{ErrorKind::usage,
                    path + ": is an input and would be overwritten; choose another --output"};
      }
    }
  }
}

Plan make_plan_of(const PrepareOptions& options) {
  if (options.shares.size() == 1 || options.shares.size() > 3) {
    throw Error{ErrorKind::usage,
                "--split takes two shares (train, validation) or three (and test)"};
  }
  for (const double share : options.shares) {
    if (std::isfinite(share) && share > 0) continue;
    throw Error{ErrorKind::usage, fmt::format("--split: {} is no share; give numbers above 0, such "
                                              "as 0.98,0.02",
                                              share)};
  }
  Plan plan;
  plan.files = find_inputs(options.inputs);
  plan.tokenizer.emplace(Tokenizer::load(options.tokenizer));
  plan.type = token_type_for(plan.tokenizer->vocabulary_size());
  plan.eod_id = find_eod(options, *plan.tokenizer);
  if (!options.bos.empty()) plan.bos_id = id_of(*plan.tokenizer, "--bos", options.bos);
  plan.prefixes = output_prefixes(options.output, options.shares.size());
  plan.arguments_digest = arguments_digest(options, plan);
  plan.inputs_digest = inputs_digest(plan.files);
  check_outputs_are_no_inputs(plan);
  return plan;
}

// What an earlier run left, when this one may go on from there.
std::optional<PrepareJournal> usable_journal(const PrepareOptions& options, const Plan& plan) {
  const std::string path = journal_path(options.output);
  std::optional<PrepareJournal> journal = load_journal(path);
  if (!journal) return std::nullopt;
  if (journal->arguments_digest == plan.arguments_digest &&
      journal->inputs_digest == plan.inputs_digest &&
      journal->shards.size() == plan.prefixes.size() && journal->read.file >= 0 &&
      journal->read.file <= static_cast<Index>(plan.files.size())) {
    return journal;
  }
  log_warning(path + ": an unfinished run had other options or inputs; the work is begun anew");
  return std::nullopt;
}

// True when all outputs are there and were made with the same arguments. Error{usage} when some
// output is there and was not.
bool are_outputs_complete(const Plan& plan) {
  std::size_t num_complete = 0;
  std::string taken;
  for (const std::string& prefix : plan.prefixes) {
    if (!is_output_taken(prefix)) continue;
    const std::optional<ShardInfo> info = read_shard_info(prefix);
    const bool is_same = info && info->arguments_digest == plan.arguments_digest &&
                         is_file(bin_path(prefix)) && is_file(idx_path(prefix));
    if (is_same) {
      ++num_complete;
    } else {
      taken = prefix;
    }
  }
  if (num_complete == plan.prefixes.size()) return true;
  if (num_complete == 0 && taken.empty()) return false;
  throw Error{
      ErrorKind::usage,
      fmt::format("{}: is there and was made from other input or with other options; choose "
                  "another --output, or make it anew with --overwrite",
                  bin_path(taken.empty() ? plan.prefixes[0] : taken))};
}

}  // namespace

std::vector<std::string> output_prefixes(const std::string& output, std::size_t num_shares) {
  if (num_shares == 0) return {output};
  std::vector<std::string> prefixes = {output + ".train", output + ".validation"};
  if (num_shares == 3) prefixes.push_back(output + ".test");
  return prefixes;
}

int share_of(const std::string& text, const std::vector<double>& shares) {
  if (shares.empty()) return 0;
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  // In [0, sum), 53 bits.
  const double place = static_cast<double>(hash64(text, kShareSeed) >> 11) * 0x1p-53 * sum;
  double end = 0;
  for (std::size_t i = 0; i + 1 < shares.size(); ++i) {
    end += shares[i];
    if (place < end) return static_cast<int>(i);
  }
  return static_cast<int>(shares.size()) - 1;
}

namespace {

// The work between the plan and the finished outputs.
class Preparation {
 public:
  Preparation(const PrepareOptions& options, const Plan& plan, ThreadPool& pool)
      : options_(options), plan_(plan), pool_(pool) {
    for (int i = 0; i < pool.num_threads(); ++i) encoders_.emplace_back(*plan.tokenizer);
  }

  // Goes on where a journal says. False when a signal asked to stop.
  bool run(std::optional<PrepareJournal> found, PrepareResult& result);

 private:
  struct Encoded {
    std::vector<TokenId> tokens;
    int share = 0;
  };

  void begin_anew();
  void begin_writing();
  void write_all(PrepareResult& result);
  void encode(const DocumentChunk& chunk);
  void write(const DocumentChunk& chunk);
  void save_journal();
  void finish();
  void publish(PrepareResult& result) const;
  Index num_tokens() const;

  const PrepareOptions& options_;
  const Plan& plan_;
  ThreadPool& pool_;
  std::vector<Encoder> encoders_;  // one per thread of the pool
  std::vector<Encoded> encoded_;   // of the documents of one chunk
  std::deque<ShardWriter> writers_;
  PrepareJournal journal_;
};

void Preparation::begin_anew() {
  remove_all(journal_path(options_.output));
  for (const std::string& prefix : plan_.prefixes) remove_partial_shard(prefix);
  journal_.arguments_digest = plan_.arguments_digest;
  journal_.inputs_digest = plan_.inputs_digest;
  journal_.shards.resize(plan_.prefixes.size());
  journal_.sources.resize(plan_.prefixes.size());
}

Index Preparation::num_tokens() const {
  Index count = 0;
  for (const ShardPosition& position : journal_.shards) count += position.tokens;
  return count;
}

bool Preparation::run(std::optional<PrepareJournal> found, PrepareResult& result) {
  result.has_continued = found.has_value();
  if (found) {
    journal_ = std::move(*found);
  } else {
    begin_anew();
  }
  if (!journal_.is_publishing) {
    if (result.has_continued) {
      log_info(fmt::format("{}: going on after {} documents, {} tokens", options_.output,
                           journal_.read.documents, num_tokens()));
    }
    begin_writing();
    write_all(result);
    if (result.stop_signal != 0) return false;
    finish();
  }
  publish(result);
  return true;
}

void Preparation::begin_writing() {
  for (std::size_t i = 0; i < plan_.prefixes.size(); ++i) {
    writers_.emplace_back(plan_.prefixes[i], plan_.type, journal_.shards[i]);
    std::vector<ShardInfo::Source>& sources = journal_.sources[i];
    sources.resize(plan_.files.size());
    for (std::size_t f = 0; f < sources.size(); ++f) {
      sources[f].path = plan_.files[f].path;
      sources[f].bytes = plan_.files[f].bytes;
    }
  }
}

void Preparation::write_all(PrepareResult& result) {
  double total = 0;
  for (const InputFile& file : plan_.files) total += static_cast<double>(file.bytes);
  Progress progress("preparing " + options_.output, Progress::Unit::bytes, total);
  ChunkReader reader(plan_.files, options_.reading, options_.repeats, journal_.read,
                     options_.chunk_bytes);
  DocumentChunk chunk;
  Index saved_tokens = num_tokens();
  while (reader.next(chunk)) {
    encode(chunk);
    write(chunk);
    progress.update(static_cast<double>(chunk.consumed));
    result.stop_signal = stop_signal();
    if (result.stop_signal != 0 || num_tokens() - saved_tokens >= options_.journal_every_tokens) {
      save_journal();
      saved_tokens = num_tokens();
    }
    if (result.stop_signal != 0) return;
  }
}

void Preparation::encode(const DocumentChunk& chunk) {
  if (encoded_.size() < chunk.documents.size()) encoded_.resize(chunk.documents.size());
  EncodeOptions encode_options;
  encode_options.no_special_in_text = !options_.has_special_in_text;
  pool_.run(static_cast<Index>(chunk.documents.size()), [&](Index i, int worker) {
    const std::string& text = chunk.documents[i].text;
    Encoded& out = encoded_[i];
    out.share = share_of(text, options_.shares);
    out.tokens.clear();
    if (text.empty()) return;
    if (plan_.bos_id >= 0) out.tokens.push_back(static_cast<TokenId>(plan_.bos_id));
    encoders_[worker].encode(text, encode_options, out.tokens);
    if (options_.appends_eod) out.tokens.push_back(static_cast<TokenId>(plan_.eod_id));
  });
}

void Preparation::write(const DocumentChunk& chunk) {
  for (std::size_t i = 0; i < chunk.documents.size(); ++i) {
    const Encoded& document = encoded_[i];
    ShardWriter& writer = writers_[document.share];
    if (!document.tokens.empty()) writer.add_sequence(document.tokens);
    writer.end_document();
    ShardInfo::Source& source = journal_.sources[document.share][chunk.documents[i].file];
    ++source.documents;
    source.tokens += static_cast<Index>(document.tokens.size());
  }
  for (std::size_t i = 0; i < writers_.size(); ++i) journal_.shards[i] = writers_[i].position();
  journal_.read = chunk.end;
  journal_.report = chunk.report;
  journal_.repeated_documents = chunk.repeated_documents;
  journal_.repeated_paragraphs = chunk.repeated_paragraphs;
  fault_point("prepare.chunk");
}

void Preparation::save_journal() {
  for (ShardWriter& writer : writers_) writer.sync();
  journal_.save(journal_path(options_.output));
}

void Preparation::finish() {
  for (std::size_t i = 0; i < writers_.size(); ++i) {
    ShardInfo info;
    info.tokenizer_digest = digest_text(plan_.tokenizer->digest());
    info.vocabulary_size = plan_.tokenizer->vocabulary_size();
    info.eod_id = plan_.eod_id;
    info.appends_eod = options_.appends_eod;
    info.bos_id = plan_.bos_id;
    info.arguments_digest = plan_.arguments_digest;
    info.sources = journal_.sources[i];
    writers_[i].finish(std::move(info));
  }
  // From here on everything is on the device under temporary names.
  journal_.is_publishing = true;
  journal_.save(journal_path(options_.output));
}

void Preparation::publish(PrepareResult& result) const {
  for (const std::string& prefix : plan_.prefixes) publish_shard(prefix);
  fault_point("prepare.published");
  remove_all(journal_path(options_.output));
  result.report = journal_.report;
  result.repeated_documents = journal_.repeated_documents;
  result.repeated_paragraphs = journal_.repeated_paragraphs;
}

}  // namespace

PrepareResult prepare(const PrepareOptions& options, ThreadPool& pool) {
  const Plan plan = make_plan_of(options);
  PrepareResult result;
  result.prefixes = plan.prefixes;
  std::optional<PrepareJournal> journal;
  if (!options.overwrites) journal = usable_journal(options, plan);
  if (!options.overwrites && !journal) result.was_complete = are_outputs_complete(plan);
  if (!result.was_complete) {
    for (const std::string& prefix : plan.prefixes) refuse_foreign_side_file(prefix);
    Preparation preparation(options, plan, pool);
    if (!preparation.run(std::move(journal), result)) return result;
  }
  for (const std::string& prefix : plan.prefixes) {
    std::optional<ShardInfo> info = read_shard_info(prefix);
    ZAYA_CHECK(info.has_value(), prefix);
    result.infos.push_back(std::move(*info));
  }
  return result;
}

}  // namespace zaya
