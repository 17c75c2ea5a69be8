// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/nearest.h"
#include "text/unicode.h"

namespace zaya {

namespace {

using Messages = std::span<const ChatMessage>;

[[noreturn]] void refuse(const std::string& problem) { throw Error{ErrorKind::usage, problem}; }

class Pieces {
 public:
  Pieces& marker(std::string_view text) {
    pieces_.push_back({std::string(text), true});
    return *this;
  }
  // Neighbouring texts are one.
  Pieces& text(std::string_view text) {
    if (text.empty()) return *this;
    if (pieces_.empty() || pieces_.back().is_marker) pieces_.emplace_back();
    pieces_.back().text += text;
    return *this;
  }
  std::vector<ChatPiece> take() { return std::move(pieces_); }

 private:
  std::vector<ChatPiece> pieces_;
};

// White space as Jinja's trim has it: Unicode's, and the four separators of ASCII.
std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); };
  while (!text.empty()) {
    std::size_t at = 0;
    if (!is_space(next_code_point(text, at))) break;
    text.remove_prefix(at);
  }
  while (!text.empty()) {
    std::size_t at = text.size();
    if (!is_space(previous_code_point(text, at))) break;
    text = text.substr(0, at);
  }
  return text;
}

std::string_view without_leading_lines(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of('\n'), text.size()));
}

std::string_view without_lines_around(std::string_view text) {
  text = without_leading_lines(text);
  return text.substr(0, text.find_last_not_of('\n') + 1);
}

std::vector<ChatPiece> write_gemma(Messages messages, bool asks_for_answer) {
  Pieces out;
  out.marker("<bos>");
  std::string prefix;
  if (messages[0].role == "system") {
    prefix = messages[0].content + "\n\n";
    messages = messages.subspan(1);
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if ((message.role == "user") != (i % 2 == 0)) {
      refuse("chat template gemma: user and assistant must take turns, the user first");
    }
    out.marker("<start_of_turn>");
    out.text(message.role == "assistant" ? "model" : message.role).text("\n");
    if (i == 0) out.text(prefix);
    out.text(trimmed(message.content)).marker("<end_of_turn>").text("\n");
  }
  if (asks_for_answer) out.marker("<start_of_turn>").text("model\n");
  return out.take();
}

std::vector<ChatPiece> write_llama3(Messages messages, bool asks_for_answer) {
  Pieces out;
  out.marker("<|begin_of_text|>");
  const auto begin = [&](std::string_view role) {
    out.marker("<|start_header_id|>").text(role).marker("<|end_header_id|>").text("\n\n");
  };
  for (const ChatMessage& message : messages) {
    begin(message.role);
    out.text(trimmed(message.content)).marker("<|eot_id|>");
  }
  if (asks_for_answer) begin("assistant");
  return out.take();
}

std::vector<ChatPiece> write_chatml(Messages messages, bool asks_for_answer) {
  Pieces out;
  for (const ChatMessage& message : messages) {
    out.marker("<|im_start|>").text(message.role).text("\n").text(message.content);
    out.marker("<|im_end|>").text("\n");
  }
  if (asks_for_answer) out.marker("<|im_start|>").text("assistant\n");
  return out.take();
}

// What an assistant thought stands before </think>; it stays only behind the last question.
std::vector<ChatPiece> write_qwen3(Messages messages, bool asks_for_answer) {
  constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
  const auto is_question = [](const ChatMessage& message) {
    return message.role == "user" && !(message.content.starts_with("<tool_response>") &&
                                       message.content.ends_with("</tool_response>"));
  };
  std::size_t last_question = messages.size() - 1;
  for (std::size_t i = messages.size(); i-- > 0;) {
    if (is_question(messages[i])) {
      last_question = i;
      break;
    }
  }
  std::vector<ChatMessage> shown(messages.begin(), messages.end());
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (shown[i].role != "assistant") continue;
    std::string_view content = messages[i].content, thought;
    if (const std::size_t first = content.find(kEnd); first != content.npos) {
      thought = content.substr(0, first);
      thought = thought.substr(0, thought.find_last_not_of('\n') + 1);
      if (const std::size_t begin = thought.rfind(kBegin); begin != thought.npos) {
        thought.remove_prefix(begin + kBegin.size());
      }
      thought = without_leading_lines(thought);
      content = without_leading_lines(content.substr(content.rfind(kEnd) + kEnd.size()));
    }
    shown[i].content = std::string(content);
    if (i > last_question && (i + 1 == shown.size() || !thought.empty())) {
      shown[i].content = fmt::format("{}\n{}\n{}\n\n{}", kBegin, without_lines_around(thought),
                                     kEnd, without_leading_lines(content));
    }
  }
  return write_chatml(shown, asks_for_answer);
}

std::vector<ChatPiece> write_deepseek(Messages messages, bool asks_for_answer) {
  Pieces out;
  out.marker("<\uFF5Cbegin\u2581of\u2581sentence\uFF5C>");
  bool is_first = true;
  for (const ChatMessage& message : messages) {
    if (message.role != "system") continue;
    out.text(is_first ? "" : "\n\n").text(message.content);
    is_first = false;
  }
  for (const ChatMessage& message : messages) {
    if (message.role == "user") out.marker("<\uFF5CUser\uFF5C>").text(message.content);
    if (message.role == "assistant") {
      out.marker("<\uFF5CAssistant\uFF5C>").text(message.content);
      out.marker("<\uFF5Cend\u2581of\u2581sentence\uFF5C>");
    }
  }
  if (asks_for_answer) out.marker("<\uFF5CAssistant\uFF5C>");
  return out.take();
}

constexpr ChatTemplate kTemplates[] = {
    {"gemma", "<end_of_turn>", write_gemma},
    {"llama3", "<|eot_id|>", write_llama3},
    {"chatml", "<|im_end|>", write_chatml},
    {"qwen3", "<|im_end|>", write_qwen3},
    {"deepseek", "<\uFF5Cend\u2581of\u2581sentence\uFF5C>", write_deepseek},
};

// hash64 of template texts that were compared with the rules above, and what they are.
struct KnownText {
  std::uint64_t hash;
  std::string_view name;
};
constexpr KnownText kKnownTexts[] = {
    {0x6D23022EB1773ED6, "gemma"},  {0x9799AD6E2DEA0594, "llama3"},
    {0xB97891B7ADC1BEB8, "llama3"}, {0xA04F41D813A07B13, "chatml"},
    {0x0283F874FF58D644, "qwen3"},  {0x6878D9AC13B3EF51, "deepseek"},
};

// By what only templates of a family say, the more special ones first.
std::optional<std::string_view> name_by_marks(std::string_view text) {
  const auto has = [&](std::string_view mark) { return text.find(mark) != text.npos; };
  if (has("<start_of_turn>") && has("<end_of_turn>")) return "gemma";
  // Later Llamas put a date into every system message.
  if (has("<|start_header_id|>") && has("<|eot_id|>") && !has("Cutting Knowledge")) return "llama3";
  // Qwen 2 has a system message of its own.
  if (has("<|im_start|>") && has("<|im_end|>") && !has("You are Qwen")) {
    return has("enable_thinking") ? "qwen3" : "chatml";
  }
  if (has("<\uFF5CUser\uFF5C>") && has("<\uFF5CAssistant\uFF5C>")) return "deepseek";
  return std::nullopt;
}

std::string list_of_names() {
  std::string list;
  for (const ChatTemplate& one : kTemplates) {
    list += fmt::format("{}{}", list.empty() ? "" : ", ", one.name());
  }
  return list;
}

}  // namespace

std::vector<std::string> ChatTemplate::names() {
  std::vector<std::string> names;
  for (const ChatTemplate& one : kTemplates) names.emplace_back(one.name());
  return names;
}

const ChatTemplate& ChatTemplate::named(std::string_view name) {
  for (const ChatTemplate& one : kTemplates) {
    if (one.name() == name) return one;
  }
  refuse(fmt::format("no chat template is called {}{} (known: {})", json_quote(name),
                     did_you_mean(name, names()), list_of_names()));
}

const ChatTemplate& ChatTemplate::of(const Tokenizer& tokenizer) {
  const std::string& text = tokenizer.chat_template();
  if (text.empty()) {
    for (const ChatTemplate& one : kTemplates) {
      const std::vector<ChatPiece> pieces =
          one.pieces(std::vector<ChatMessage>{{"user", "x"}}, true);
      const bool has_all = std::all_of(pieces.begin(), pieces.end(), [&](const ChatPiece& piece) {
        return !piece.is_marker || tokenizer.id_of(piece.text).has_value();
      });
      if (has_all && tokenizer.id_of(one.end_of_turn_)) return one;
    }
    refuse(fmt::format("{}: has no chat template, and its tokens fit none that is known ({})",
                       tokenizer.path(), list_of_names()));
  }
  const std::uint64_t hash = hash64(text);
  for (const KnownText& known : kKnownTexts) {
    if (known.hash == hash) return named(known.name);
  }
  const std::optional<std::string_view> name = name_by_marks(text);
  if (!name) {
    refuse(fmt::format("{}: its chat template is not a known one; name one if it fits ({})",
                       tokenizer.path(), list_of_names()));
  }
  log_warning(
      fmt::format("{}: its chat template is not known word for word; by its marks it is "
                  "taken for {}",
                  tokenizer.path(), *name));
  return named(*name);
}

const ChatTemplate& ChatTemplate::choose(std::string_view name, const Tokenizer& tokenizer) {
  return name == "auto" ? of(tokenizer) : named(name);
}

std::vector<ChatPiece> ChatTemplate::pieces(Messages messages, bool asks_for_answer) const {
  if (messages.empty()) refuse("a chat without messages");
  for (const ChatMessage& message : messages) {
    if (message.role != "system" && message.role != "user" && message.role != "assistant") {
      refuse(fmt::format("a chat message of {}: roles are system, user and assistant",
                         json_quote(message.role)));
    }
    if (!is_valid_utf8(message.content)) refuse("a chat message that is not UTF-8");
  }
  return write_(messages, asks_for_answer);
}

std::string ChatTemplate::render(Messages messages, bool asks_for_answer) const {
  std::string text;
  for (const ChatPiece& piece : pieces(messages, asks_for_answer)) text += piece.text;
  return text;
}

TokenId ChatTemplate::marker_id(const Tokenizer& tokenizer, std::string_view marker) const {
  if (const std::optional<TokenId> id = tokenizer.id_of(marker)) return *id;
  refuse(fmt::format("{}: has no token {}, which chat template {} needs", tokenizer.path(), marker,
                     name_));
}

std::vector<TokenId> ChatTemplate::encode(const Tokenizer& tokenizer, Messages messages,
                                          bool asks_for_answer) const {
  const std::vector<ChatPiece> all = pieces(messages, asks_for_answer);
  std::set<std::string_view> ordinary;  // markers that are not special tokens
  for (const ChatPiece& piece : all) {
    if (piece.is_marker && !tokenizer.is_special(marker_id(tokenizer, piece.text))) {
      ordinary.insert(piece.text);
    }
  }
  Encoder encoder(tokenizer);
  std::vector<TokenId> ids;
  for (const ChatPiece& piece : all) {
    if (piece.is_marker) {
      ids.push_back(marker_id(tokenizer, piece.text));
      continue;
    }
    // Special tokens in it are text. Where it has a marker that is not special it is cut behind
    // the marker's first letter, so that none is found.
    const std::string_view text = piece.text;
    std::set<std::size_t> cuts{text.size()};
    for (const std::string_view marker : ordinary) {
      for (std::size_t at = 0; (at = text.find(marker, at)) != text.npos;) cuts.insert(++at);
    }
    std::size_t begin = 0;
    for (const std::size_t cut : cuts) {
      encoder.encode(text.substr(begin, cut - begin), {.no_special_in_text = true}, ids);
      begin = cut;
    }
  }
  return ids;
}

TokenId ChatTemplate::end_of_turn(const Tokenizer& tokenizer) const {
  return marker_id(tokenizer, end_of_turn_);
}

}  // namespace zaya
