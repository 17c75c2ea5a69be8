// SPDX-License-Identifier: Apache-2.0
//
// One line of JSONL: the string member that holds the text. Strict JSON (built on simdjson, which
// stays in jsonl.cc).
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace zaya {

class JsonlParser {
 public:
  // `key` names the member. Lenient: invalid UTF-8 and lone surrogate escapes become U+FFFD.
  JsonlParser(std::string key, bool is_lenient);
  ~JsonlParser();
  JsonlParser(JsonlParser&&) noexcept;

  // Writes the member's text and returns "", or returns what is wrong with the line. So many bytes
  // behind the line must be readable as LineReader::kPaddingBytes says.
  std::string parse(std::string_view line, std::string& text);
  // The line parsed last held something that became U+FFFD.
  bool was_repaired() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zaya
