// SPDX-License-Identifier: Apache-2.0
//
// `zaya dataset inspect | dump | import | merge | verify`: looks into token files, checks and joins
// them, and takes over those of other programs (cmd_dataset_import.cc).
#include "app/cmd_dataset.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "app/commands.h"
#include "base/cli.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/nearest.h"
#include "data/merge.h"
#include "data/shard.h"
#include "text/tokenizer.h"

namespace zaya {

namespace {

constexpr Index kMaxScannedTokens = Index{1} << 24;

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// Text on its way to stdout: large dumps are not held in memory.
class Output {
 public:
  ~Output() { flush(); }
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
    if (buffer_.size() >= kFlushBytes) flush();
  }

 private:
  static constexpr std::size_t kFlushBytes = 1 << 16;

  void flush() {
    print({buffer_.data(), buffer_.size()});
    buffer_.clear();
  }

  fmt::memory_buffer buffer_;
};

std::vector<std::int64_t> tokens_of(const Shard& shard, Index sequence, Index limit) {
  std::vector<std::int64_t> tokens(
      static_cast<std::size_t>(std::min(limit, shard.index().length(sequence))));
  shard.read(sequence, 0, static_cast<Index>(tokens.size()), tokens.data());
  return tokens;
}

void add_tokens(Output& out, const std::vector<std::int64_t>& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) out.add("{}{}", i == 0 ? "" : ", ", tokens[i]);
}

// Documents [first, end) of a shard; the JSON form counts sequences from the first of these.
struct DocumentRange {
  Index first = 0, end = 0;
};

void dump_json(const Shard& shard, DocumentRange range) {
  const TokenIndex& index = shard.index();
  const Index first = index.document_begin(range.first);
  Output out;
  out.add("{{\"dtype\": \"{}\", \"sequence_lengths\": [", name_of(index.type()));
  for (Index s = first; s < index.document_begin(range.end); ++s) {
    out.add("{}{}", s == first ? "" : ", ", index.length(s));
  }
  out.add("], \"document_indices\": [");
  for (Index d = range.first; d <= range.end; ++d) {
    out.add("{}{}", d == range.first ? "" : ", ", index.document_begin(d) - first);
  }
  out.add("], \"documents\": [");
  for (Index d = range.first; d < range.end; ++d) {
    out.add("{}", d == range.first ? "[" : ", [");
    for (Index s = index.document_begin(d); s < index.document_begin(d + 1); ++s) {
      out.add("{}", s == index.document_begin(d) ? "[" : ", [");
      add_tokens(out, tokens_of(shard, s, index.length(s)));
      out.add("]");
    }
    out.add("]");
  }
  out.add("]}}\n");
}

void dump_text(const Shard& shard, DocumentRange range) {
  const TokenIndex& index = shard.index();
  Output out;
  for (Index d = range.first; d < range.end; ++d) {
    if (index.document_begin(d) == index.document_begin(d + 1)) out.add("document {}: empty\n", d);
    for (Index s = index.document_begin(d); s < index.document_begin(d + 1); ++s) {
      out.add("document {} sequence {}: ", d, s);
      add_tokens(out, tokens_of(shard, s, index.length(s)));
      out.add("\n");
    }
  }
}

int dump(Arguments arguments) {
  std::string prefix;
  bool as_json = false;
  Index first = 0, limit = 0;
  Command command("dataset dump", "Prints the tokens of a token file.",
                  "zaya dataset dump tokens/train --documents 2 --json");
  command.positional("PREFIX", prefix, "What stands before .bin and .idx.");
  command.option("--first", first, "Number of the first document to print, from 0.");
  command.option("--documents", limit, "Only so many documents; 0: all.");
  command.flag("--json", as_json,
               "Prints one JSON object: dtype, sequence_lengths, document_indices, documents.");
  if (!command.parse(arguments)) return 0;
  const Shard shard(prefix);
  const Index all = shard.index().num_documents();
  if (first < 0 || first > all || limit < 0) {
    throw Error{ErrorKind::usage, fmt::format("--first {} --documents {}: {} has documents 0 to {}",
                                              first, limit, prefix, all - 1)};
  }
  const DocumentRange range{first, limit > 0 ? std::min(first + std::min(limit, all), all) : all};
  as_json ? dump_json(shard, range) : dump_text(shard, range);
  return 0;
}

// The first tokens of the first documents that have some, as text.
std::vector<std::string> decode_samples(const Shard& shard, const Tokenizer& tokenizer,
                                        Index num_samples, Index num_tokens) {
  std::vector<std::string> samples;
  const TokenIndex& index = shard.index();
  for (Index d = 0; d < index.num_documents(); ++d) {
    if (static_cast<Index>(samples.size()) >= num_samples) break;
    std::vector<TokenId> ids;
    for (Index s = index.document_begin(d); s < index.document_begin(d + 1); ++s) {
      const Index room = num_tokens - static_cast<Index>(ids.size());
      for (const std::int64_t id : tokens_of(shard, s, room)) {
        ids.push_back(static_cast<TokenId>(id));
      }
    }
    DecodeOptions options;
    options.is_lenient = true;
    if (!ids.empty()) samples.push_back(tokenizer.decode(ids, options));
  }
  return samples;
}

Json summary_of(const Shard& shard) {
  const TokenIndex& index = shard.index();
  const TokenRange range = scan_tokens(shard, kMaxScannedTokens);
  Json json = Json::object();
  json.set("prefix", shard.prefix());
  json.set("dtype", name_of(index.type()));
  json.set("documents", index.num_documents());
  json.set("empty_documents", index.num_documents() - index.num_filled_documents());
  json.set("sequences", index.num_sequences());
  json.set("tokens", index.num_tokens());
  json.set("longest_document_tokens", index.longest_document());
  json.set("has_modes", index.has_modes());
  json.set("bin_bytes", shard.bin_bytes());
  json.set("least_id", range.least);
  json.set("largest_id", range.largest);
  json.set("are_ids_exact", range.is_exact);
  json.set("side_file", shard.info() ? shard.info()->to_json() : Json());
  return json;
}

void print_summary(const Shard& shard, const Json& json) {
  const auto number = [&](const char* key) { return json.at(key).as_integer(); };
  Output out;
  out.add("token file {} ({}, {})\n", shard.prefix(), json.at("dtype").as_string(),
          human_bytes(static_cast<double>(shard.bin_bytes())));
  out.add("documents {}, of them {} empty; sequences {}; modes: {}\n", number("documents"),
          number("empty_documents"), number("sequences"), shard.index().has_modes() ? "yes" : "no");
  out.add("tokens {}, longest document {}\n", number("tokens"), number("longest_document_tokens"));
  out.add("ids {} to {}{}\n", number("least_id"), number("largest_id"),
          json.at("are_ids_exact").as_bool() ? "" : " (of a sample)");
  if (!shard.info()) {
    out.add("side file: none, the tokenizer is not known\n");
    return;
  }
  const ShardInfo& info = *shard.info();
  const auto id_text = [](Index id) { return id < 0 ? std::string("none") : std::to_string(id); };
  out.add("tokenizer {} with {} ids\n", info.tokenizer_digest, info.vocabulary_size);
  out.add("end of document: id {}, {}; start of document: id {}\n", id_text(info.eod_id),
          info.appends_eod ? "appended" : "not appended", id_text(info.bos_id));
  for (const ShardInfo::Source& source : info.sources) {
    out.add("source {}: {} documents, {} tokens\n", source.path, source.documents, source.tokens);
  }
}

void check_tokenizer(const Shard& shard, const Tokenizer& tokenizer) {
  const std::string digest = digest_text(tokenizer.digest());
  if (!shard.info() || shard.info()->tokenizer_digest == digest) return;
  throw Error{
      ErrorKind::usage,
      fmt::format("{}: was made with another tokenizer ({}, {} is {}); its text would be "
                  "wrong",
                  shard.prefix(), shard.info()->tokenizer_digest, tokenizer.path(), digest)};
}

int inspect(Arguments arguments) {
  std::string prefix, tokenizer_path;
  bool as_json = false;
  Index num_samples = 3, num_tokens = 64;
  Command command("dataset inspect", "Counts, ids, tokenizer and sources of a token file.",
                  "zaya dataset inspect tokens/train --tokenizer tokenizer.json");
  command.positional("PREFIX", prefix, "What stands before .bin and .idx.");
  command.option("--tokenizer", tokenizer_path, "Shows the beginnings of documents as text.");
  command.option("--samples", num_samples, "How many documents to show.");
  command.option("--sample-tokens", num_tokens, "How many tokens of each.");
  command.flag("--json", as_json, "Prints one JSON object.");
  if (!command.parse(arguments)) return 0;
  const Shard shard(prefix);
  Json json = summary_of(shard);
  std::vector<std::string> samples;
  if (!tokenizer_path.empty()) {
    const Tokenizer tokenizer = Tokenizer::load(tokenizer_path);
    check_tokenizer(shard, tokenizer);
    samples = decode_samples(shard, tokenizer, num_samples, std::max<Index>(num_tokens, 0));
  }
  if (as_json) {
    Json list = Json::array();
    for (const std::string& sample : samples) list.push(sample);
    json.set("samples", std::move(list));
    print(json.dump() + "\n");
    return 0;
  }
  print_summary(shard, json);
  for (const std::string& sample : samples) print("text " + json_quote(sample) + "\n");
  return 0;
}

int merge(Arguments arguments) {
  MergeOptions options;
  Command command("dataset merge", "Joins token files, in the order given, into one.",
                  "zaya dataset merge --output tokens/all tokens/a tokens/b");
  command.positionals("PREFIX...", options.prefixes, "The token files to join.");
  command.option("--output", options.output, "PREFIX of the joined file.", true);
  command.flag("--overwrite", options.overwrites, "Replaces an output that is there.");
  if (!command.parse(arguments)) return 0;
  const MergeResult result = merge_shards(options);
  if (result.stop_signal != 0) {
    log_warning(
        fmt::format("stopped; the same command goes on ({}.merge.journal)", options.output));
    return 128 + result.stop_signal;
  }
  if (result.kept_bytes > 0) {
    log_info(fmt::format("went on after {} that an unfinished joining had written",
                         human_bytes(static_cast<double>(result.kept_bytes))));
  }
  const Shard joined(options.output);
  print(fmt::format("{}: {} documents, {} tokens\n", options.output, joined.index().num_documents(),
                    joined.index().num_tokens()));
  return 0;
}

int verify(Arguments arguments) {
  std::string prefix;
  Command command("dataset verify",
                  "Checks every rule of the format and every token of a token file: exits 0, or 3 "
                  "with one line of reason.",
                  "zaya dataset verify tokens/train");
  command.positional("PREFIX", prefix, "What stands before .bin and .idx.");
  if (!command.parse(arguments)) return 0;
  const Shard shard(prefix);
  verify_shard(shard);
  print(fmt::format("{}: good, {} documents, {} tokens\n", prefix, shard.index().num_documents(),
                    shard.index().num_tokens()));
  return 0;
}

}  // namespace

int command_dataset(Arguments arguments) {
  const std::vector<std::string> names = {"inspect", "dump", "import", "merge", "verify"};
  const std::string name = arguments.empty() ? "--help" : arguments[0];
  if (name == "--help") {
    print(
        "usage: zaya dataset inspect|dump|import|merge|verify ...  "
        "(zaya dataset verify --help explains one)\n\n"
        "  inspect  counts, ids, tokenizer and sources; some text with --tokenizer\n"
        "  dump     prints the tokens, for people or as JSON\n"
        "  import   makes token files of llm.c shards, .npy arrays and MosaicML data sets\n"
        "  merge    joins token files into one\n"
        "  verify   checks every rule and every token: exits 0, or 3 with one line of reason\n\n"
        "Example:\n  zaya dataset inspect tokens/train\n");
    return arguments.empty() ? exit_code(ErrorKind::usage) : 0;
  }
  const Arguments rest = arguments.subspan(1);
  if (name == "inspect") return inspect(rest);
  if (name == "dump") return dump(rest);
  if (name == "import") return dataset_import(rest);
  if (name == "merge") return merge(rest);
  if (name == "verify") return verify(rest);
  throw Error{ErrorKind::usage,
              fmt::format("unknown command dataset {}{} (see zaya dataset --help)", name,
                          did_you_mean(name, names))};
}

}  // namespace zaya
