// SPDX-License-Identifier: Apache-2.0
//
// `zaya dataset import`: token files of other programs to ours.
#include <fmt/core.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <string>

#include "app/cmd_dataset.h"
#include "base/cli.h"
#include "base/error.h"
#include "base/log.h"
#include "base/nearest.h"
#include "data/import.h"
#include "text/tokenizer.h"

namespace zaya {

namespace {

// An id in digits, or a token that the tokenizer knows.
Index id_from(const std::string& option, const std::string& text,
              const std::optional<Tokenizer>& tokenizer) {
  if (text.empty()) return -1;
  Index id = -1;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (failure == std::errc{} && end == text.data() + text.size() && id >= 0) return id;
  if (!tokenizer) {
    throw Error{
        ErrorKind::usage,
        fmt::format("zaya dataset import: {} {}: is no id; tokens need --tokenizer", option, text)};
  }
  if (const std::optional<TokenId> found = tokenizer->id_of(text)) return *found;
  throw Error{ErrorKind::usage,
              fmt::format("zaya dataset import: {} {}: {} has no such token{}", option, text,
                          tokenizer->path(), did_you_mean(text, tokenizer->special_tokens()))};
}

void apply_tokenizer(const Tokenizer& tokenizer, ImportOptions& options) {
  const Index size = tokenizer.vocabulary_size();
  if (options.vocabulary_size > 0 && options.vocabulary_size != size) {
    throw Error{ErrorKind::usage,
                fmt::format("zaya dataset import: --vocabulary-size {} is not that of {}, {}",
                            options.vocabulary_size, tokenizer.path(), size)};
  }
  options.vocabulary_size = size;
  options.tokenizer_digest = digest_text(tokenizer.digest());
}

void report(const ImportOptions& options, const ImportResult& result, bool as_json) {
  std::string text;
  if (as_json) {
    Json json = Json::object();
    json.set("output", options.output);
    json.set("choice_examples", result.num_choice_examples);
    json.set("documents", result.info.documents);
    json.set("tokens", result.info.tokens);
    text = json.dump() + "\n";
  } else if (result.num_choice_examples > 0) {
    text = fmt::format("{}.jsonl: {} multiple-choice examples\n", options.output,
                       result.num_choice_examples);
  } else {
    text = fmt::format("{}: {} documents, {} tokens\n", options.output, result.info.documents,
                       result.info.tokens);
  }
  std::fputs(text.c_str(), stdout);
}

}  // namespace

int dataset_import(Arguments arguments) {
  ImportOptions options;
  std::string tokenizer_path, eod, start;
  bool as_json = false;
  Command command("dataset import",
                  "Makes token files of llm.c shards, numpy arrays and MosaicML data sets.",
                  "zaya dataset import 'fineweb/*_train_*.bin' --output tokens/train");
  command.positionals("INPUT...", options.inputs,
                      "Files, folders and quoted patterns, taken in this order; files of a folder "
                      "or pattern in byte order of name.");
  command.option("--output", options.output, "PREFIX of the token file.", true);
  command.choice("--format", options.format, {"auto", "llmc", "npy", "mds"},
                 "auto: each input by its content.");
  command.option("--tokenizer", tokenizer_path,
                 "tokenizer.json that made the tokens: ids are checked against it, and the side "
                 "file names it.");
  command.option("--vocabulary-size", options.vocabulary_size,
                 "Ids must be below this; below 65500 they are stored in two bytes. 0: unknown.");
  command.option("--eod", eod, "TOKEN or ID that ends each document: documents are cut behind it.");
  command.option("--document-start", start,
                 "TOKEN or ID that begins each document: documents are cut before it. llm.c "
                 "shards have 50256 or 128000 by default.");
  command.option("--mds-column", options.mds_column, "Column of the tokens.");
  command.choice("--mds-dtype", options.mds_bytes_type,
                 {"uint8", "uint16", "int32", "uint32", "int64"},
                 "Type of the ids in a column of plain bytes; LLM-foundry wrote int64, newer "
                 "versions int32.");
  command.flag("--overwrite", options.overwrites, "Replaces an output that is there.");
  command.flag("--json", as_json, "Prints one JSON object.");
  if (!command.parse(arguments)) return 0;
  if (options.vocabulary_size < 0) {
    throw Error{ErrorKind::usage, "zaya dataset import: --vocabulary-size is 1 or more"};
  }
  std::optional<Tokenizer> tokenizer;
  if (!tokenizer_path.empty()) {
    tokenizer.emplace(Tokenizer::load(tokenizer_path));
    apply_tokenizer(*tokenizer, options);
  }
  options.eod_id = id_from("--eod", eod, tokenizer);
  options.start_id = id_from("--document-start", start, tokenizer);
  const ImportResult result = import_tokens(options);
  if (result.stop_signal != 0) {
    log_warning("stopped; nothing was written, the same command begins anew");
    return 128 + result.stop_signal;
  }
  report(options, result, as_json);
  return 0;
}

}  // namespace zaya
