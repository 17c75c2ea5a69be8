// SPDX-License-Identifier: Apache-2.0
#include "data/document.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "data/jsonl.h"
#include "data/line_reader.h"
#include "text/unicode.h"

namespace zaya {

namespace {

constexpr int kMaxFolderDepth = 100;
constexpr std::size_t kPlacesToKeep = 3;

InputFile describe_input(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    throw Error{ErrorKind::usage, path + ": can't open: " + std::strerror(errno)};
  }
  if (!S_ISREG(info.st_mode)) {
    throw Error{ErrorKind::usage, path + ": is neither a file nor a folder"};
  }
  return {path, info.st_size,
          static_cast<Index>(info.st_mtim.tv_sec) * 1000000000 + info.st_mtim.tv_nsec};
}

void walk(const std::string& folder, int depth, std::vector<std::string>& paths, Index& hidden) {
  if (depth > kMaxFolderDepth) {
    throw Error{ErrorKind::usage,
                fmt::format("{}: folders nested above {} levels; does a link point back to a "
                            "folder above it?",
                            folder, kMaxFolderDepth)};
  }
  for (const std::string& name : list_directory(folder)) {
    if (name.starts_with('.')) {
      ++hidden;
      continue;
    }
    const std::string path = join_path(folder, name);
    if (is_directory(path)) {
      walk(path, depth + 1, paths, hidden);
    } else {
      paths.push_back(path);
    }
  }
}

std::string_view without_compression(std::string_view path) {
  for (const std::string_view ending : {".gz", ".zst", ".zstd"}) {
    if (path.ends_with(ending)) return path.substr(0, path.size() - ending.size());
  }
  return path;
}

// Names that promise text, whatever bytes it holds; other files must not hold a NUL.
bool is_text_name(std::string_view path) {
  const std::string_view name = without_compression(path);
  return name.ends_with(".txt") || name.ends_with(".md") || name.ends_with(".text");
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

std::string_view without_line_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

std::vector<InputFile> find_inputs(const std::vector<std::string>& paths) {
  std::vector<InputFile> files;
  for (const std::string& path : paths) {
    if (!is_directory(path)) {
      files.push_back(describe_input(path));
      continue;
    }
    std::vector<std::string> found;
    Index hidden = 0;
    walk(path, 0, found, hidden);
    if (hidden > 0) {
      log_info(fmt::format("{}: {} hidden files or folders skipped", path, hidden));
    }
    if (found.empty()) throw Error{ErrorKind::usage, path + ": the folder holds no files"};
    std::sort(found.begin(), found.end());
    for (const std::string& name : found) files.push_back(describe_input(name));
  }
  return files;
}

bool is_jsonl_name(std::string_view path) {
  const std::string_view name = without_compression(path);
  return name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".json");
}

struct DocumentReader::State {
  enum class Outcome { document, end, bad };

  State(std::vector<InputFile> input_files, ReadOptions read_options, Index first_file,
        ReadReport before)
      : files(std::move(input_files)),
        options(std::move(read_options)),
        parser(options.text_key, options.replaces_invalid_utf8),
        file(first_file),
        report(std::move(before)),
        report_before_file(report) {
    for (Index i = 0; i < first_file; ++i) consumed_before += files[i].bytes;
  }

  const std::string& path() const { return files[file].path; }
  void open();
  void close();
  Outcome read_json(Document& document);
  Outcome read_whole(Document& document);
  Outcome read_part(Document& document);
  Outcome finish_text(Document& document);
  void reject(Index line, std::string_view what);
  void count_bad(std::string message);

  std::vector<InputFile> files;
  ReadOptions options;
  JsonlParser parser;
  Index file;
  ReadReport report, report_before_file;
  Index consumed_before = 0;
  std::optional<LineReader> lines;
  bool is_json = false, is_done = false;  // of the open file
  std::string carry;                      // first line of the next part
};

DocumentReader::DocumentReader(std::vector<InputFile> files, ReadOptions options, Index first_file,
                               ReadReport before)
    : state_(std::make_unique<State>(std::move(files), std::move(options), first_file,
                                     std::move(before))) {}

DocumentReader::~DocumentReader() = default;

const ReadReport& DocumentReader::report() const { return state_->report; }

const ReadReport& DocumentReader::report_before_file() const { return state_->report_before_file; }

Index DocumentReader::consumed() const {
  return state_->consumed_before + (state_->lines ? state_->lines->consumed() : 0);
}

bool DocumentReader::next(Document& document) {
  State& s = *state_;
  while (s.file < static_cast<Index>(s.files.size())) {
    State::Outcome outcome = State::Outcome::end;
    try {
      if (!s.lines) s.open();
      document.file = s.file;
      if (s.is_json) {
        outcome = s.read_json(document);
      } else {
        outcome = s.options.split_blank_lines > 0 ? s.read_part(document) : s.read_whole(document);
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::damaged || !s.options.skips_bad) throw;
      s.count_bad(error.message());
    }
    if (outcome == State::Outcome::document) return true;
    if (outcome == State::Outcome::end) s.close();
  }
  return false;
}

void DocumentReader::State::open() {
  report_before_file = report;
  lines.emplace(ByteSource(path()), path());
  is_json = is_jsonl_name(path());
  is_done = false;
  carry.clear();
}

void DocumentReader::State::close() {
  lines.reset();
  consumed_before += files[file].bytes;
  ++file;
}

void DocumentReader::State::count_bad(std::string message) {
  ++report.num_bad;
  if (report.first_bad.size() < kPlacesToKeep) report.first_bad.push_back(std::move(message));
}

void DocumentReader::State::reject(Index line, std::string_view what) {
  std::string message = fmt::format("{}:{}: {}", path(), line, what);
  if (!options.skips_bad) {
    throw Error{ErrorKind::damaged, message +
                                        "; correct the file, or count and leave out such "
                                        "documents with --skip-bad"};
  }
  count_bad(std::move(message));
}

DocumentReader::State::Outcome DocumentReader::State::read_json(Document& document) {
  std::string_view line;
  do {
    if (!lines->next(line)) return Outcome::end;
  } while (is_blank(line));
  document.line = lines->line_number();
  const std::string problem = parser.parse(line, document.text);
  if (!problem.empty()) {
    reject(document.line, problem);
    return Outcome::bad;
  }
  if (parser.was_repaired()) ++report.num_repaired;
  return Outcome::document;
}

DocumentReader::State::Outcome DocumentReader::State::read_whole(Document& document) {
  if (std::exchange(is_done, true)) return Outcome::end;
  document.text.clear();
  document.line = 1;
  std::string_view line;
  while (lines->next(line)) {
    if (document.text.size() + line.size() > kMaxLineBytes) {
      throw Error{ErrorKind::damaged,
                  path() + ": a document above 1 GiB; split it: --split-documents blank-lines 1"};
    }
    document.text += line;
  }
  return finish_text(document);
}

// Runs of blank lines shorter than asked for stay inside; the line end before a cut is dropped.
DocumentReader::State::Outcome DocumentReader::State::read_part(Document& document) {
  std::string& text = document.text;
  text.swap(carry);
  carry.clear();
  document.line = lines->line_number();
  std::string blanks;
  Index num_blanks = 0;
  std::string_view line;
  while (lines->next(line)) {
    if (is_blank(line)) {
      ++num_blanks;
      if (!text.empty() && num_blanks < options.split_blank_lines) blanks += line;
      continue;
    }
    if (!text.empty() && num_blanks >= options.split_blank_lines) {
      carry = line;
      break;
    }
    if (text.empty()) document.line = lines->line_number();
    if (text.size() + line.size() > kMaxLineBytes) {
      throw Error{ErrorKind::damaged,
                  fmt::format("{}:{}: a document above 1 GiB", path(), document.line)};
    }
    text += blanks;
    text += line;
    blanks.clear();
    num_blanks = 0;
  }
  if (text.empty()) return Outcome::end;
  text.resize(without_line_end(text).size());
  return finish_text(document);
}

DocumentReader::State::Outcome DocumentReader::State::finish_text(Document& document) {
  std::string& text = document.text;
  if (!is_text_name(path()) && text.find('\0') != std::string::npos) {
    reject(document.line,
           "not a text file (it holds NUL bytes); known are text, JSONL (.jsonl, .ndjson, .json), "
           "both also as .gz and .zst");
    return Outcome::bad;
  }
  const std::size_t bad = valid_utf8_length(text);
  if (bad == text.size()) return Outcome::document;
  if (!options.replaces_invalid_utf8) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(bad);
    reject(document.line + std::count(text.begin(), end, '\n'), "invalid UTF-8");
    return Outcome::bad;
  }
  std::string repaired;
  append_valid_utf8(text, repaired);
  text.swap(repaired);
  ++report.num_repaired;
  return Outcome::document;
}

}  // namespace zaya
