// SPDX-License-Identifier: Apache-2.0
//
// The pre-tokenizer of a tokenizer: cuts a stretch of text into the parts that the model sees one
// by one. Each step cuts every part of the step before it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/component.h"
#include "text/regex.h"

namespace zaya {

// A part of a text, in bytes. Never empty.
struct Part {
  std::size_t begin = 0, end = 0;
};

enum class SplitBehavior {
  isolated,              // matches and gaps are parts
  removed,               // matches vanish
  merged_with_previous,  // a match joins what is before it, the first of several in a row only
  merged_with_next,
  contiguous,  // neighbouring matches are one part
};

// Working memory; one per thread.
struct PreTokenizeScratch {
  struct Piece {
    std::size_t begin, end;
    bool is_match;
  };
  std::string text, next_text;
  std::vector<Part> parts, next_parts;
  std::vector<Piece> pieces;
};

// Immutable after construction.
class PreTokenizer {
 public:
  // One part: the whole text.
  PreTokenizer() = default;
  // Reads the member "pre_tokenizer" (null: one part). Throws Error naming what is not supported.
  PreTokenizer(const Json& json, const std::string& where);

  // Does it end in ByteLevel? Then the model sees bytes, written in the 256-letter alphabet, and
  // not characters. The parts below are raw bytes in both cases.
  bool is_byte_level() const { return is_byte_level_; }

  struct Result {
    std::string_view text;
    std::span<const Part> parts;
  };
  // Cuts valid UTF-8. `is_start`: does the text begin a document? The result lives in `text` and
  // `scratch` until either changes.
  Result apply(std::string_view text, bool is_start, PreTokenizeScratch& scratch,
               RegexScratch& regex) const;

 private:
  struct Split {
    std::variant<std::string, Regex> pattern;
    SplitBehavior behavior;
    bool is_inverted;
  };
  // Begins each part with a space unless it has one.
  struct PrefixSpace {};
  // Spaces become `replacement`, which is also put in front according to `prepend`.
  struct Metaspace {
    enum class Prepend { first, always, never };
    std::string replacement;
    Prepend prepend;
  };
  using Step = std::variant<Split, PrefixSpace, Metaspace>;

  void read(const Component& component);
  void read_split(const Component& component);
  void read_byte_level(const Component& component);
  void read_metaspace(const Component& component);
  // True when `component` was one of the fixed patterns with a name.
  bool read_named(const Component& component);
  void add_pattern(std::string_view pattern, SplitBehavior behavior, bool is_inverted = false);

  static void cut(const Split& split, std::string_view text, Part part, PreTokenizeScratch& scratch,
                  RegexScratch& regex);
  static void find_pieces(const Split& split, std::string_view text,
                          std::vector<PreTokenizeScratch::Piece>& pieces, RegexScratch& regex);

  std::vector<Step> steps_;
  bool is_byte_level_ = false;
};

// The 256-letter alphabet of ByteLevel: the character that stands for a byte, and back.
char32_t byte_letter(unsigned char byte);
std::optional<unsigned char> letter_byte(char32_t letter);
// Appends the letters of all bytes as UTF-8.
void append_byte_letters(std::string_view bytes, std::string& out);

}  // namespace zaya
