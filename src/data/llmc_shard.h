// SPDX-License-Identifier: Apache-2.0
//
// Token shards and multiple-choice files of llm.c. Little-endian:
//
//   offset 0      256 x i32   [0] magic, [1] version, [2] count > 0, [3] see below, the rest 0
//   offset 1024               values until the end of the file
//
//   magic      version   values   count is the number of
//   20240520   1         u16      tokens (GPT-2); a document begins with 50256
//   20240801   7         u32      tokens (Llama 3); a document begins with 128000
//   20240522   1         u16      multiple-choice examples; [3] is the longest of them in bytes
//
// An example is 65535, its bytes (all of it), its number, the label, the number of endings, then a
// count and so many ids for the context and for each ending. A document may go on from one shard to
// the next: only an id that begins documents ends the one before.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/token_source.h"

namespace zaya {

struct LlmcHeader {
  enum class Kind { gpt2_tokens, llama3_tokens, choices };
  Kind kind = Kind::gpt2_tokens;
  Index count = 0;                  // tokens or examples
  Index longest_example_bytes = 0;  // of choices

  bool has_tokens() const { return kind != Kind::choices; }
  int bytes_per_token() const { return kind == Kind::llama3_tokens ? 4 : 2; }
  Index document_start_id() const { return kind == Kind::llama3_tokens ? 128000 : 50256; }
};

// Does a file that begins with `head` claim to be one of these?
bool is_llmc(std::span<const std::byte> head);
// Checks header and size of a whole file. Error{damaged} begins with `where`.
LlmcHeader parse_llmc(std::span<const std::byte> file, std::string_view where);

struct ChoiceExample {
  std::vector<Index> context;
  std::vector<std::vector<Index>> endings;
  Index label = 0;  // number of the right ending
};

// Goes through the examples of a file that parse_llmc() accepted as choices.
class LlmcChoices {
 public:
  // The bytes belong to the caller and outlive this object.
  LlmcChoices(std::span<const std::byte> file, std::string where);

  // False behind the last example, when the file must end too. Error{damaged}.
  bool next(ChoiceExample& example);

 private:
  Index take(std::string_view what);
  std::vector<Index> take_ids();

  std::span<const std::byte> file_;
  std::string where_;
  LlmcHeader header_;
  Index number_ = 0;
  std::size_t at_ = 0, end_ = 0;  // bytes: where reading is, where the example ends
};

class LlmcTokens : public TokenSource {
 public:
  // Error{damaged}, also for a file of multiple-choice examples.
  explicit LlmcTokens(const std::string& path);

  const std::string& path() const override { return file_.path(); }
  Index num_bytes() const override { return static_cast<Index>(file_.bytes().size()); }
  bool fits_u16() const override { return header_.bytes_per_token() == 2; }
  Index document_start_id() const override { return header_.document_start_id(); }
  bool next(TokenBatch& batch) override;
  Index consumed() const override;

 private:
  MappedFile file_;
  LlmcHeader header_;
  Index position_ = 0;  // tokens handed out
};

}  // namespace zaya
