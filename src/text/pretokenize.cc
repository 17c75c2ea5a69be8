// SPDX-License-Identifier: Apache-2.0
#include "text/pretokenize.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "text/unicode.h"

namespace zaya {

namespace {

using Piece = PreTokenizeScratch::Piece;

constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kPunctuation = R"([!-/:-@\[-`{-~\p{P}])";
// Rust's \w: other than Oniguruma's it has the two joiners, and no superscripts and fractions.
constexpr std::string_view kRustWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}\x{24B6}-\x{24E9})"
    R"(\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";

SplitBehavior read_behavior(const Component& component) {
  const std::string& name = component.text("behavior");
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  component.refuse(fmt::format("with behavior {} isn't supported", json_quote(name)));
}

// Joins neighbours in place; `joins(left, right)` is asked for each piece and the one before it as
// they were found.
template <class Joins>
void join_pieces(std::vector<Piece>& pieces, Joins joins) {
  std::size_t kept = 0;
  Piece before{};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece piece = pieces[i];
    if (i > 0 && joins(before, piece)) {
      pieces[kept - 1].end = piece.end;
    } else {
      pieces[kept++] = piece;
    }
    before = piece;
  }
  pieces.resize(kept);
}

void apply_behavior(SplitBehavior behavior, std::vector<Piece>& pieces) {
  switch (behavior) {
    case SplitBehavior::isolated: break;
    case SplitBehavior::removed:
      std::erase_if(pieces, [](const Piece& piece) { return piece.is_match; });
      break;
    case SplitBehavior::merged_with_previous:
      join_pieces(pieces, [](const Piece& left, const Piece& right) {
        return right.is_match && !left.is_match;
      });
      break;
    case SplitBehavior::merged_with_next:
      join_pieces(pieces, [](const Piece& left, const Piece& right) {
        return left.is_match && !right.is_match;
      });
      break;
    case SplitBehavior::contiguous:
      join_pieces(pieces, [](const Piece& left, const Piece& right) {
        return left.is_match == right.is_match;
      });
      break;
  }
}

}  // namespace

PreTokenizer::PreTokenizer(const Json& json, const std::string& where) {
  if (!json.is_null()) read(Component(json, where));
}

void PreTokenizer::read(const Component& component) {
  if (is_byte_level_) component.refuse("after ByteLevel isn't supported");
  const std::string& type = component.type();
  if (type == "Sequence") {
    component.allow({"pretokenizers"});
    const std::size_t count = component.list("pretokenizers").size();
    for (std::size_t i = 0; i < count; ++i) read(component.item("pretokenizers", i));
  } else if (type == "Split") {
    read_split(component);
  } else if (type == "ByteLevel") {
    read_byte_level(component);
  } else if (type == "Metaspace") {
    read_metaspace(component);
  } else if (!read_named(component)) {
    component.refuse("isn't a supported pre-tokenizer");
  }
}

void PreTokenizer::read_split(const Component& component) {
  component.allow({"pattern", "behavior", "invert"});
  PatternText pattern = read_pattern(component, "pattern");
  Split split{std::move(pattern.text), read_behavior(component), component.flag("invert", false)};
  if (pattern.is_regex) {
    split.pattern =
        Regex(component.at("pattern").members()[0].second.as_string(), component.where());
  }
  steps_.emplace_back(std::move(split));
}

void PreTokenizer::read_byte_level(const Component& component) {
  component.allow({"add_prefix_space", "trim_offsets", "use_regex"});
  if (component.flag("add_prefix_space")) steps_.emplace_back(PrefixSpace{});
  if (component.flag("use_regex", true)) add_pattern(kByteLevelPattern, SplitBehavior::isolated);
  is_byte_level_ = true;
}

void PreTokenizer::read_metaspace(const Component& component) {
  component.allow({"replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  const std::string& replacement = component.text("replacement");
  std::size_t length = 0;
  if (!replacement.empty()) next_code_point(replacement, length);
  if (length == 0 || length != replacement.size()) {
    component.damaged("replacement: expected one character");
  }
  std::string scheme = component.text("prepend_scheme", "always");
  if (!component.flag("add_prefix_space", true)) {
    if (component.has("prepend_scheme") && scheme != "never") {
      component.refuse("with add_prefix_space false and a prepend_scheme isn't supported");
    }
    scheme = "never";
  }
  using Prepend = Metaspace::Prepend;
  const auto prepend = scheme == "first"    ? std::optional(Prepend::first)
                       : scheme == "always" ? std::optional(Prepend::always)
                       : scheme == "never"  ? std::optional(Prepend::never)
                                            : std::nullopt;
  if (!prepend) {
    component.refuse(fmt::format("with prepend_scheme {} isn't supported", json_quote(scheme)));
  }
  steps_.emplace_back(Metaspace{replacement, *prepend});
  if (component.flag("split", true)) {
    steps_.emplace_back(Split{replacement, SplitBehavior::merged_with_next, false});
  }
}

bool PreTokenizer::read_named(const Component& component) {
  const std::string& type = component.type();
  if (type == "Digits") {
    component.allow({"individual_digits"});
    add_pattern(R"(\p{N})", component.flag("individual_digits", false) ? SplitBehavior::isolated
                                                                       : SplitBehavior::contiguous);
  } else if (type == "Punctuation") {
    component.allow({"behavior"});
    add_pattern(kPunctuation,
                component.has("behavior") ? read_behavior(component) : SplitBehavior::isolated);
  } else if (type == "Whitespace") {
    component.allow({});
    add_pattern(fmt::format("[{0}]+|[^{0}\\s]+", kRustWord), SplitBehavior::removed, true);
  } else if (type == "WhitespaceSplit" || type == "BertPreTokenizer") {
    component.allow({});
    add_pattern(R"(\s)", SplitBehavior::removed);
    if (type == "BertPreTokenizer") add_pattern(kPunctuation, SplitBehavior::isolated);
  } else {
    return false;
  }
  return true;
}

void PreTokenizer::add_pattern(std::string_view pattern, SplitBehavior behavior, bool is_inverted) {
  steps_.emplace_back(Split{Regex(pattern, "built-in pattern"), behavior, is_inverted});
}

PreTokenizer::Result PreTokenizer::apply(std::string_view text, bool is_start,
                                         PreTokenizeScratch& scratch, RegexScratch& regex) const {
  std::vector<Part>&parts = scratch.parts, &next_parts = scratch.next_parts;
  parts.clear();
  if (!text.empty()) parts.push_back({0, text.size()});
  // Gives each part a new text, written by `write(part, part_text, out)`.
  const auto rewrite = [&](auto&& write) {
    scratch.next_text.clear();
    for (Part& part : parts) {
      const std::size_t begin = scratch.next_text.size();
      write(part, text.substr(part.begin, part.end - part.begin), scratch.next_text);
      part = {begin, scratch.next_text.size()};
    }
    std::swap(scratch.text, scratch.next_text);
    text = scratch.text;
  };
  for (const Step& step : steps_) {
    if (const Split* split = std::get_if<Split>(&step)) {
      next_parts.clear();
      for (const Part part : parts) cut(*split, text, part, scratch, regex);
      std::swap(parts, next_parts);
    } else if (const Metaspace* metaspace = std::get_if<Metaspace>(&step)) {
      rewrite([&](Part part, std::string_view old, std::string& out) {
        const bool is_prepended =
            metaspace->prepend == Metaspace::Prepend::always ||
            (metaspace->prepend == Metaspace::Prepend::first && is_start && part.begin == 0);
        if (is_prepended && old[0] != ' ' && !old.starts_with(metaspace->replacement)) {
          out += metaspace->replacement;
        }
        for (const char c : old) {
          if (c == ' ') {
            out += metaspace->replacement;
          } else {
            out += c;
          }
        }
      });
    } else {
      rewrite([](Part, std::string_view old, std::string& out) {
        if (old[0] != ' ') out += ' ';
        out += old;
      });
    }
  }
  return {text, parts};
}

void PreTokenizer::find_pieces(const Split& split, std::string_view text,
                               std::vector<Piece>& pieces, RegexScratch& regex) {
  std::size_t copied = 0;
  const auto add = [&](std::size_t begin, std::size_t end) {
    if (begin > copied) pieces.push_back({copied, begin, split.is_inverted});
    pieces.push_back({begin, end, !split.is_inverted});
    copied = end;
  };
  pieces.clear();
  if (const Regex* pattern = std::get_if<Regex>(&split.pattern)) {
    MatchIterator matches(*pattern, text, regex);
    while (const std::optional<Match> match = matches.next()) add(match->begin, match->end);
  } else {
    const std::string& literal = std::get<std::string>(split.pattern);
    for (std::size_t at = 0; (at = text.find(literal, at)) != text.npos; at += literal.size()) {
      add(at, at + literal.size());
    }
  }
  if (copied < text.size()) pieces.push_back({copied, text.size(), split.is_inverted});
}

void PreTokenizer::cut(const Split& split, std::string_view text, Part part,
                       PreTokenizeScratch& scratch, RegexScratch& regex) {
  find_pieces(split, text.substr(part.begin, part.end - part.begin), scratch.pieces, regex);
  apply_behavior(split.behavior, scratch.pieces);
  for (const Piece& piece : scratch.pieces) {
    if (piece.begin < piece.end) {
      scratch.next_parts.push_back({part.begin + piece.begin, part.begin + piece.end});
    }
  }
}

namespace {

constexpr bool is_own_letter(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The bytes that can't stand for themselves follow each other from U+0100 on.
constexpr std::array<char32_t, 256> kLetters = [] {
  std::array<char32_t, 256> letters{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    letters[byte] = is_own_letter(byte) ? byte : next++;
  }
  return letters;
}();

constexpr std::array<std::int16_t, 0x144> kBytes = [] {
  std::array<std::int16_t, 0x144> bytes{};
  bytes.fill(-1);
  for (unsigned byte = 0; byte < 256; ++byte) {
    bytes[kLetters[byte]] = static_cast<std::int16_t>(byte);
  }
  return bytes;
}();

}  // namespace

char32_t byte_letter(unsigned char byte) { return kLetters[byte]; }

std::optional<unsigned char> letter_byte(char32_t letter) {
  if (letter >= kBytes.size() || kBytes[letter] < 0) return std::nullopt;
  return static_cast<unsigned char>(kBytes[letter]);
}

void append_byte_letters(std::string_view bytes, std::string& out) {
  for (const char byte : bytes) append_utf8(byte_letter(static_cast<unsigned char>(byte)), out);
}

}  // namespace zaya
