// SPDX-License-Identifier: Apache-2.0
//
// How the known families of models write a conversation down. The templates that come with
// tokenizers are programs (Jinja); these are the same rules by name, without running anybody's
// program.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace zaya {

struct ChatMessage {
  std::string role, content;  // role: system, user or assistant
};

// A conversation written down: markers such as <|im_start|>, which are tokens, and text between.
struct ChatPiece {
  std::string text;
  bool is_marker = false;
};

class ChatTemplate {
 public:
  using Write = std::vector<ChatPiece> (*)(std::span<const ChatMessage> messages,
                                           bool asks_for_answer);
  constexpr ChatTemplate(std::string_view name, std::string_view end_of_turn, Write write)
      : name_(name), end_of_turn_(end_of_turn), write_(write) {}

  // gemma, llama3, chatml, qwen3 or deepseek; Error{usage} naming the nearest for any other name.
  static const ChatTemplate& named(std::string_view name);
  static std::vector<std::string> names();
  // The one that the tokenizer's own template text is; without such a text, the one whose markers
  // the tokenizer has. A text that is known by its marks only gives a warning. Error{usage} when
  // nothing fits.
  static const ChatTemplate& of(const Tokenizer& tokenizer);
  // `name`, or with "auto" as above.
  static const ChatTemplate& choose(std::string_view name, const Tokenizer& tokenizer);

  std::string_view name() const { return name_; }
  // The conversation as text; with `asks_for_answer` up to where the assistant's answer begins.
  // Error{usage} for roles and orders that the family does not have.
  std::string render(std::span<const ChatMessage> messages, bool asks_for_answer) const;
  // Its ids. Contents are never taken for markers or other special tokens, whatever they say; for
  // contents that have none, these are the ids of the rendered text.
  std::vector<TokenId> encode(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                              bool asks_for_answer) const;
  // The token that ends the assistant's answer.
  TokenId end_of_turn(const Tokenizer& tokenizer) const;

 private:
  std::vector<ChatPiece> pieces(std::span<const ChatMessage> messages, bool asks_for_answer) const;
  TokenId marker_id(const Tokenizer& tokenizer, std::string_view marker) const;

  std::string_view name_, end_of_turn_;
  Write write_;
};

}  // namespace zaya
