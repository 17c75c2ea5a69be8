// SPDX-License-Identifier: Apache-2.0
//
// `zaya prepare`: text and JSONL files to token files.
#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "app/commands.h"
#include "base/cli.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "data/prepare.h"

namespace zaya {

namespace {

template <class T>
T number_from(std::string_view option, std::string_view text) {
  T value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure == std::errc{} && end == text.data() + text.size()) return value;
  throw Error{ErrorKind::usage, fmt::format("zaya prepare: {}: \"{}\" is no number", option, text)};
}

// "0.98,0.02".
std::vector<double> shares_from(std::string_view text) {
  std::vector<double> shares;
  if (text.empty()) return shares;
  while (true) {
    const std::size_t comma = text.find(',');
    shares.push_back(number_from<double>("--split", text.substr(0, comma)));
    if (comma == std::string_view::npos) return shares;
    text.remove_prefix(comma + 1);
  }
}

// "blank-lines" and a number, 1 when left out.
Index blank_lines_from(const std::vector<std::string>& words) {
  if (words.empty()) return 0;
  if (words[0] != "blank-lines" || words.size() > 2) {
    throw Error{ErrorKind::usage,
                "zaya prepare: --split-documents takes blank-lines and a number of lines"};
  }
  const Index count = words.size() == 2 ? number_from<Index>("--split-documents", words[1]) : 1;
  if (count >= 1) return count;
  throw Error{ErrorKind::usage, "zaya prepare: --split-documents blank-lines takes 1 or more"};
}

RepeatFilter::Unit repeats_from(const std::string& name) {
  if (name == "documents") return RepeatFilter::Unit::document;
  return name == "paragraphs" ? RepeatFilter::Unit::paragraph : RepeatFilter::Unit::none;
}

void report_left_out(const PrepareResult& result) {
  const ReadReport& report = result.report;
  if (report.num_bad > 0) {
    log_warning(fmt::format("{} bad documents skipped; the first of them:", report.num_bad));
    for (const std::string& place : report.first_bad) log_warning("  " + place);
  }
  if (report.num_repaired > 0) {
    log_warning(fmt::format("{} documents held invalid UTF-8 or lone surrogates, now U+FFFD",
                            report.num_repaired));
  }
  if (result.repeated_documents + result.repeated_paragraphs > 0) {
    log_info(fmt::format("left out as repeated: {} documents, {} paragraphs",
                         result.repeated_documents, result.repeated_paragraphs));
  }
}

void print_text(const PrepareResult& result) {
  for (std::size_t i = 0; i < result.prefixes.size(); ++i) {
    const ShardInfo& info = result.infos[i];
    std::fputs(fmt::format("{}: {} documents, {} tokens\n", result.prefixes[i], info.documents,
                           info.tokens)
                   .c_str(),
               stdout);
    if (info.tokens == 0) {
      log_warning(
          fmt::format("{} holds no tokens: too little text for its share", result.prefixes[i]));
    }
  }
}

void print_json(const PrepareResult& result) {
  Json outputs = Json::array();
  for (std::size_t i = 0; i < result.prefixes.size(); ++i) {
    Json output = Json::object();
    output.set("prefix", result.prefixes[i]);
    output.set("documents", result.infos[i].documents);
    output.set("tokens", result.infos[i].tokens);
    outputs.push(std::move(output));
  }
  Json places = Json::array();
  for (const std::string& place : result.report.first_bad) places.push(place);
  Json json = Json::object();
  json.set("outputs", std::move(outputs));
  json.set("was_complete", result.was_complete);
  json.set("bad_documents", result.report.num_bad);
  json.set("first_bad", std::move(places));
  json.set("repaired_documents", result.report.num_repaired);
  json.set("repeated_documents", result.repeated_documents);
  json.set("repeated_paragraphs", result.repeated_paragraphs);
  std::fputs((json.dump() + "\n").c_str(), stdout);
}

int run(const PrepareOptions& options, Index threads, bool as_json) {
  const double start = monotonic_seconds();
  if (threads < 0 || threads > 4096) {
    throw Error{ErrorKind::usage,
                fmt::format("zaya prepare: --threads {} is not possible", threads)};
  }
  ThreadPool pool(threads == 0 ? usable_threads() : static_cast<int>(threads));
  const PrepareResult result = prepare(options, pool);
  if (result.stop_signal != 0) {
    log_warning(fmt::format("stopped; the same command goes on ({}.journal)", options.output));
    return 128 + result.stop_signal;
  }
  report_left_out(result);
  if (result.was_complete) {
    log_info(options.output + ": is complete already; nothing done (--overwrite makes it anew)");
  } else {
    log_info(fmt::format("done in {}", human_duration(monotonic_seconds() - start)));
  }
  as_json ? print_json(result) : print_text(result);
  return 0;
}

}  // namespace

int command_prepare(Arguments arguments) {
  PrepareOptions options;
  std::string split, invalid_utf8 = "error", repeats = "none";
  std::vector<std::string> split_documents;
  bool drops_eod = false, no_special_in_text = false, as_json = false;
  Index threads = 0;
  Command command(
      "prepare", "Turns text, JSONL and folders of them into token files for training.",
      "zaya prepare --input corpus.jsonl.zst --tokenizer tokenizer.json --output tokens");
  command.option("--input", options.inputs,
                 "Files and folders: .jsonl, .ndjson and .json hold one object a line, all others "
                 "are plain text; .gz and .zst too.",
                 true);
  command.option("--tokenizer", options.tokenizer, "tokenizer.json, or a folder that holds one.",
                 true);
  command.option("--output", options.output, "PREFIX: writes PREFIX.bin, PREFIX.idx, PREFIX.json.",
                 true);
  command.option("--text-key", options.reading.text_key, "Member of JSONL objects with the text.");
  command.option("--split", split,
                 "Shares such as 0.98,0.02: writes PREFIX.train and PREFIX.validation; a third one "
                 "is PREFIX.test. Decided by the text of each document.");
  command.option("--split-documents", split_documents,
                 "blank-lines N: plain text is cut into documents at runs of N blank lines.");
  command.choice("--drop-repeated", repeats, {"none", "documents", "paragraphs"},
                 "What is left out when it was there before, word for word.");
  command.option("--eod", options.eod,
                 "Token or id at the end of each document; default: the tokenizer's end of text.");
  command.flag("--no-append-eod", drops_eod, "Nothing is put at the end of documents.");
  command.option("--bos", options.bos, "Token or id put before each document; default: nothing.");
  command.flag("--no-special-in-text", no_special_in_text,
               "Special tokens written out in the text stay text: for untrusted input.");
  command.choice("--invalid-utf8", invalid_utf8, {"error", "replace"},
                 "Invalid UTF-8 ends the work, or becomes U+FFFD and is counted.");
  command.flag("--skip-bad", options.reading.skips_bad,
               "Bad lines and files are left out and counted instead of ending the work.");
  command.option("--threads", threads, "Threads that encode; 0: all.");
  command.flag("--overwrite", options.overwrites, "Makes outputs that are there anew.");
  command.flag("--json", as_json, "Prints the result as one JSON object.");
  if (!command.parse(arguments)) return 0;
  options.shares = shares_from(split);
  options.reading.split_blank_lines = blank_lines_from(split_documents);
  options.reading.replaces_invalid_utf8 = invalid_utf8 == "replace";
  options.repeats = repeats_from(repeats);
  options.appends_eod = !drops_eod;
  options.has_special_in_text = !no_special_in_text;
  return run(options, threads, as_json);
}

}  // namespace zaya
