// SPDX-License-Identifier: Apache-2.0
//
// Documents of text files and JSONL files, one after the other, in bounded memory.
//
//   .jsonl .ndjson .json   one object a line; its member "text" is a document
//   any other name         plain text: the file is one document, or split at runs of blank lines
//
// A .gz or .zst behind such a name is no part of it; compression itself is recognised by content.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace zaya {

struct InputFile {
  std::string path;
  Index bytes = 0;
  Index modified_ns = 0;
};

// The files that `paths` name: files as given, folders walked in byte order of path. Hidden files
// and folders inside a folder are skipped and said. Error{usage} for a path that is not there and
// for a folder without files.
std::vector<InputFile> find_inputs(const std::vector<std::string>& paths);

// Is this a JSONL file by its name?
bool is_jsonl_name(std::string_view path);

struct ReadOptions {
  std::string text_key = "text";
  bool replaces_invalid_utf8 = false;  // by U+FFFD; otherwise it is an error
  bool skips_bad = false;              // bad documents are counted; otherwise an error
  // Plain text is split at runs of at least so many blank lines; 0: a file is one document.
  Index split_blank_lines = 0;
};

// What was left out or changed so far.
struct ReadReport {
  Index num_bad = 0;
  Index num_repaired = 0;              // documents with something replaced by U+FFFD
  std::vector<std::string> first_bad;  // the first three places and reasons
  bool operator==(const ReadReport&) const = default;
};

struct Document {
  std::string text;
  Index file = 0;  // number in the list of files
  Index line = 0;  // where it begins, from 1
};

class DocumentReader {
 public:
  // Begins at file number `first_file`, with what was counted before it.
  DocumentReader(std::vector<InputFile> files, ReadOptions options, Index first_file = 0,
                 ReadReport before = {});
  ~DocumentReader();
  DocumentReader(const DocumentReader&) = delete;
  DocumentReader& operator=(const DocumentReader&) = delete;

  // False at the end of the last file. Error{damaged} "path:line: what" unless bad documents are
  // skipped; a compressed stream that is cut or damaged then counts as one bad document and its
  // file ends there.
  bool next(Document& document);

  const ReadReport& report() const;
  // report() as it was when the file of the newest document was begun.
  const ReadReport& report_before_file() const;
  // Bytes of the files read so far, before decompression.
  Index consumed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zaya
