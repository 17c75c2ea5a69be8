// SPDX-License-Identifier: Apache-2.0
//
// What tests of this folder share: a folder to write into, small token files, files cut into lines.
// For tests only.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/shard.h"
#include "data/shard_writer.h"

namespace zaya {

// A new folder below /tmp, removed with its content at the end of the scope.
class TestFolder {
 public:
  TestFolder() {
    std::string name = "/tmp/zaya-data-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw Error{ErrorKind::hardware, "can't make " + name};
    path_ = name;
  }
  ~TestFolder() { remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string operator/(std::string_view name) const { return join_path(path_, name); }
  // Writes a file and returns its path.
  std::string write(std::string_view name, std::string_view content) const {
    const std::string path = *this / name;
    make_directories(directory_name(path));
    FileWriter writer(path);
    writer.write(content);
    writer.close();
    return path;
  }

 private:
  std::string path_;
};

// Writes a token file with one sequence per document (none for an empty one).
inline std::string write_shard(const std::string& prefix,
                               const std::vector<std::vector<std::int32_t>>& documents,
                               const std::string& tokenizer_digest = "xxh3-128:test") {
  ShardWriter writer(prefix, TokenType::i32);
  for (const std::vector<std::int32_t>& document : documents) {
    if (!document.empty()) writer.add_sequence(document);
    writer.end_document();
  }
  ShardInfo info;
  info.tokenizer_digest = tokenizer_digest;
  info.vocabulary_size = 1 << 30;
  writer.finish(info);
  publish_shard(prefix);
  return prefix;
}

// Documents of these lengths; the tokens count up from `first` over all of them.
inline std::vector<std::vector<std::int32_t>> counting_documents(const std::vector<int>& lengths,
                                                                 std::int32_t first = 1) {
  std::vector<std::vector<std::int32_t>> documents;
  for (const int length : lengths) {
    documents.emplace_back();
    for (int i = 0; i < length; ++i) documents.back().push_back(first++);
  }
  return documents;
}

// The message of the Error that `action` throws, after its kind's exit code: "3 path: ...".
template <class Action>
std::string failure_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return std::to_string(exit_code(error.kind())) + " " + error.message();
  }
  return "no error";
}

}  // namespace zaya
