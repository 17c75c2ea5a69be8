// SPDX-License-Identifier: Apache-2.0
#include "data/import.h"

#include <fmt/core.h>
#include <glob.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/fault_point.h"
#include "base/progress.h"
#include "base/stop.h"
#include "data/byte_source.h"
#include "data/llmc_shard.h"
#include "data/mds.h"
#include "data/npy.h"
#include "data/shard_writer.h"

namespace zaya {

namespace {

constexpr std::size_t kHeadBytes = 512;
constexpr std::string_view kKnownFormats =
    "known are llm.c shards (.bin), numpy arrays (.npy) and MosaicML folders (index.json)";

enum class Format { llmc, llmc_choices, npy, mds };

struct Input {
  std::string path;
  Format format = Format::llmc;
};

bool is_mds_folder(const std::string& path) { return is_file(join_path(path, "index.json")); }

// Names in byte order; none when nothing matches.
std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> shards_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const std::string& name : list_directory(folder)) {
    const bool is_shard = name.ends_with(".bin") || name.ends_with(".npy");
    if (!name.starts_with('.') && is_shard) paths.push_back(join_path(folder, name));
  }
  if (!paths.empty()) return paths;
  throw Error{ErrorKind::usage, fmt::format("{}: holds neither index.json nor .bin or .npy files; "
                                            "{}",
                                            folder, kKnownFormats)};
}

std::vector<std::string> expand(const std::vector<std::string>& inputs) {
  std::vector<std::string> paths;
  const auto add = [&](const std::vector<std::string>& more) {
    paths.insert(paths.end(), more.begin(), more.end());
  };
  for (const std::string& input : inputs) {
    if (path_kind(input) == PathKind::absent && input.find_first_of("*?[") != std::string::npos) {
      const std::vector<std::string> found = matches_of(input);
      if (found.empty()) throw Error{ErrorKind::usage, input + ": no file matches"};
      add(found);
    } else if (is_directory(input) && !is_mds_folder(input)) {
      add(shards_in(input));
    } else if (base_name(input) == "index.json") {
      paths.push_back(directory_name(input));
    } else {
      paths.push_back(input);
    }
  }
  if (paths.empty()) throw Error{ErrorKind::usage, "nothing to import: give at least one INPUT"};
  return paths;
}

Format llmc_format(const MappedFile& file) {
  return parse_llmc(file.bytes(), file.path()).has_tokens() ? Format::llmc : Format::llmc_choices;
}

Format detect(const std::string& path) {
  if (is_directory(path)) {
    if (is_mds_folder(path)) return Format::mds;
    throw Error{ErrorKind::usage, path + ": is a folder without index.json"};
  }
  const MappedFile file(path);
  const std::span<const std::byte> head =
      file.bytes().first(std::min(kHeadBytes, file.bytes().size()));
  if (is_npy(head)) return Format::npy;
  if (is_llmc(head)) return llmc_format(file);
  // Formats that hold text or are packed: the message says what to do.
  if (std::string refusal = refusal_of(file.text().substr(0, head.size()), path);
      !refusal.empty()) {
    throw Error{ErrorKind::usage, std::move(refusal)};
  }
  throw Error{ErrorKind::damaged,
              fmt::format("{}: is no token file that is known here; {}", path, kKnownFormats)};
}

Input input_of(const std::string& path, const std::string& format) {
  if (format == "auto") return {path, detect(path)};
  if (format == "mds") {
    if (is_directory(path)) return {path, Format::mds};
    throw Error{ErrorKind::usage, path + ": a MosaicML data set is a folder"};
  }
  if (is_directory(path)) {
    throw Error{ErrorKind::usage,
                fmt::format("{}: is a folder, not a file of the format {}", path, format)};
  }
  if (format == "npy") return {path, Format::npy};
  return {path, llmc_format(MappedFile(path))};
}

std::unique_ptr<TokenSource> open_source(const Input& input, const ImportOptions& options) {
  switch (input.format) {
    case Format::npy: return std::make_unique<NpyTokens>(input.path);
    case Format::mds:
      return std::make_unique<MdsFolder>(
          input.path,
          MdsOptions{options.mds_column, options.mds_bytes_type, options.output + ".mds.partial"});
    case Format::llmc:
    case Format::llmc_choices: break;
  }
  return std::make_unique<LlmcTokens>(input.path);
}

// Puts tokens into documents and sequences.
class DocumentCutter {
 public:
  DocumentCutter(const ImportOptions& options, ShardWriter& writer, Index largest_allowed)
      : options_(options), writer_(writer), largest_allowed_(largest_allowed) {}

  // The tokens of one batch of a source whose documents begin with `start_id` (-1: no such rule).
  void add(const TokenBatch& batch, const TokenSource& source, Index start_id) {
    for (const std::int64_t token : batch.tokens) {
      if (token < 0 || token > largest_allowed_) refuse(token, source);
      if (token == start_id && is_open_) end_document();
      if (!is_open_) begin_document(token == start_id);
      pending_.push_back(static_cast<std::int32_t>(token));
      ++position_;
      if (static_cast<Index>(pending_.size()) + sequence_tokens_ == options_.max_sequence_tokens) {
        end_sequence();
      }
      if (token == options_.eod_id) end_document();
    }
    flush();
    const bool has_rule = start_id >= 0 || options_.eod_id >= 0;
    if (!batch.ends_row || has_rule) return;
    if (!is_open_) begin_document(false);
    end_document();
  }
  void begin_source() { position_ = 0; }
  // Behind the last source.
  void finish() {
    ends_with_eod_ = !is_open_;
    if (is_open_) end_document();
  }

  // Does each document begin with the start id, end with the eod id?
  bool begins_with_start() const { return begins_with_start_; }
  bool ends_with_eod() const { return ends_with_eod_ && options_.eod_id >= 0; }

 private:
  [[noreturn]] void refuse(std::int64_t token, const TokenSource& source) const {
    const std::string why = token < 0 ? "ids are not negative"
                            : options_.vocabulary_size > 0
                                ? fmt::format("the vocabulary has {} ids", options_.vocabulary_size)
                                : fmt::format("ids go to {}", largest_allowed_);
    throw Error{ErrorKind::damaged,
                fmt::format("{}: token {} is {}; {}", source.path(), position_, token, why)};
  }
  void begin_document(bool begins_with_start) {
    is_open_ = true;
    begins_with_start_ = begins_with_start_ && begins_with_start;
  }
  void flush() {
    writer_.append(pending_);
    sequence_tokens_ += static_cast<Index>(pending_.size());
    pending_.clear();
  }
  void end_sequence() {
    flush();
    if (sequence_tokens_ > 0) writer_.end_sequence();
    sequence_tokens_ = 0;
  }
  void end_document() {
    end_sequence();
    writer_.end_document();
    is_open_ = false;
  }

  const ImportOptions& options_;
  ShardWriter& writer_;
  Index largest_allowed_;
  std::vector<std::int32_t> pending_;  // tokens of the sequence that the writer has not got
  Index sequence_tokens_ = 0;          // tokens of it that the writer has
  Index position_ = 0;                 // of the next token in its source
  bool is_open_ = false;               // a document is begun
  bool begins_with_start_ = true, ends_with_eod_ = false;
};

TokenType type_of(const std::vector<std::unique_ptr<TokenSource>>& sources, Index vocabulary) {
  if (vocabulary > 0) return token_type_for(vocabulary);
  const bool fits = std::all_of(sources.begin(), sources.end(),
                                [](const auto& source) { return source->fits_u16(); });
  return fits ? TokenType::u16 : TokenType::i32;
}

Index largest_of(TokenType type, Index vocabulary) {
  if (vocabulary > 0) return vocabulary - 1;
  return type == TokenType::u16 ? std::numeric_limits<std::uint16_t>::max()
                                : std::numeric_limits<std::int32_t>::max();
}

// The id that documents begin with in all sources; a start or end that was asked for goes first.
Index start_id_of(const std::vector<std::unique_ptr<TokenSource>>& sources,
                  const ImportOptions& options) {
  if (options.start_id >= 0 || options.eod_id >= 0) return options.start_id;
  const Index first = sources.front()->document_start_id();
  for (const auto& source : sources) {
    if (source->document_start_id() == first) continue;
    throw Error{ErrorKind::usage,
                fmt::format("{} and {} have other rules for documents; import them one by one, "
                            "then join them with zaya dataset merge",
                            sources.front()->path(), source->path())};
  }
  return first;
}

// False when a signal asked to stop.
bool copy(std::vector<std::unique_ptr<TokenSource>>& sources, DocumentCutter& cutter,
          ShardWriter& writer, Index start_id, ShardInfo& info) {
  Index total = 0, done = 0;
  for (const auto& source : sources) total += source->num_bytes();
  Progress progress("importing tokens", Progress::Unit::bytes, static_cast<double>(total));
  TokenBatch batch;
  for (auto& source : sources) {
    ShardInfo::Source& entry =
        info.sources.emplace_back(ShardInfo::Source{source->path(), source->num_bytes(), 0, 0});
    const Index documents_before = writer.position().documents;
    cutter.begin_source();
    while (source->next(batch)) {
      if (stop_signal() != 0) return false;
      cutter.add(batch, *source, start_id);
      entry.tokens += static_cast<Index>(batch.tokens.size());
      progress.update(static_cast<double>(done + source->consumed()));
      fault_point("import.batch");
    }
    if (source == sources.back()) cutter.finish();
    entry.documents = writer.position().documents - documents_before;
    done += source->num_bytes();
    source.reset();
  }
  return true;
}

void check_output(const std::string& file, bool overwrites) {
  if (path_kind(file) == PathKind::absent || overwrites) return;
  throw Error{ErrorKind::usage, fmt::format("{}: is there already; choose another --output, or "
                                            "replace it with --overwrite",
                                            file)};
}

ImportResult import_sources(const std::vector<Input>& inputs, const ImportOptions& options) {
  refuse_foreign_side_file(options.output);
  for (const std::string& file :
       {bin_path(options.output), idx_path(options.output), info_path(options.output)}) {
    check_output(file, options.overwrites);
  }
  std::vector<std::unique_ptr<TokenSource>> sources;
  for (const Input& input : inputs) sources.push_back(open_source(input, options));
  const TokenType type = type_of(sources, options.vocabulary_size);
  const Index start_id = start_id_of(sources, options);
  make_directories(directory_name(options.output));
  remove_partial_shard(options.output);
  ImportResult result;
  ShardWriter writer(options.output, type);
  DocumentCutter cutter(options, writer, largest_of(type, options.vocabulary_size));
  try {
    if (!copy(sources, cutter, writer, start_id, result.info)) {
      result.stop_signal = stop_signal();
      remove_partial_shard(options.output);
      return result;
    }
  } catch (const Error&) {
    remove_partial_shard(options.output);
    throw;
  }
  result.info.tokenizer_digest = options.tokenizer_digest;
  result.info.vocabulary_size = options.vocabulary_size;
  result.info.eod_id = options.eod_id;
  result.info.appends_eod = cutter.ends_with_eod();
  result.info.bos_id = start_id >= 0 && cutter.begins_with_start() ? start_id : -1;
  writer.finish(result.info);
  publish_shard(options.output);
  result.info = *read_shard_info(options.output);
  return result;
}

Json to_json(const std::vector<Index>& ids) {
  Json list = Json::array();
  for (const Index id : ids) list.push(id);
  return list;
}

ImportResult import_choices(const std::vector<Input>& inputs, const ImportOptions& options) {
  const std::string path = options.output + ".jsonl";
  check_output(path, options.overwrites);
  make_directories(directory_name(path));
  ImportResult result;
  FileWriter writer(path + ".partial", "choices");
  for (const Input& input : inputs) {
    const MappedFile file(input.path);
    LlmcChoices choices(file.bytes(), input.path);
    ChoiceExample example;
    while (choices.next(example)) {
      Json endings = Json::array(), line = Json::object();
      for (const std::vector<Index>& ending : example.endings) endings.push(to_json(ending));
      line.set("context_ids", to_json(example.context));
      line.set("ending_ids", std::move(endings));
      line.set("label", example.label);
      writer.write(line.dump() + "\n");
      ++result.num_choice_examples;
    }
  }
  writer.sync();
  writer.close();
  rename_durably(path + ".partial", path);
  return result;
}

}  // namespace

ImportResult import_tokens(const ImportOptions& options) {
  if (options.eod_id >= 0 && options.start_id >= 0) {
    throw Error{ErrorKind::usage,
                "documents begin with an id or end with one: give --eod or "
                "--document-start"};
  }
  const std::vector<std::string> paths = expand(options.inputs);
  std::vector<Input> inputs;
  for (const std::string& path : paths) inputs.push_back(input_of(path, options.format));
  refuse_input_as_output(paths, options.output);
  const auto has_choices = [](const Input& input) { return input.format == Format::llmc_choices; };
  if (std::none_of(inputs.begin(), inputs.end(), has_choices)) {
    return import_sources(inputs, options);
  }
  if (std::all_of(inputs.begin(), inputs.end(), has_choices)) {
    return import_choices(inputs, options);
  }
  throw Error{ErrorKind::usage,
              "multiple-choice files and token shards do not go together; import "
              "them one by one"};
}

}  // namespace zaya
