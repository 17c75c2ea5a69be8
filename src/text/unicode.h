// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 and the few Unicode properties and normal forms that tokenizers rest on. utf8proc stays in
// unicode.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace zaya {

// The code point that starts at text[at]; moves `at` behind it. `text` must be valid UTF-8.
inline char32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[i]));
  };
  const char32_t lead = byte(at);
  if (lead < 0x80) {
    at += 1;
    return lead;
  }
  if (lead < 0xE0) {
    at += 2;
    return (lead & 0x1F) << 6 | (byte(at - 1) & 0x3F);
  }
  if (lead < 0xF0) {
    at += 3;
    return (lead & 0x0F) << 12 | (byte(at - 2) & 0x3F) << 6 | (byte(at - 1) & 0x3F);
  }
  at += 4;
  return (lead & 0x07) << 18 | (byte(at - 3) & 0x3F) << 12 | (byte(at - 2) & 0x3F) << 6 |
         (byte(at - 1) & 0x3F);
}

// The code point that ends before text[at], at > 0; moves `at` to its start.
char32_t previous_code_point(std::string_view text, std::size_t& at);

// `c` is a Unicode scalar value: at most 0x10FFFF and no surrogate.
void append_utf8(char32_t c, std::string& out);
std::string to_utf8(char32_t c);

// Length of the longest prefix that is valid UTF-8 and ends at a character's end.
std::size_t valid_utf8_length(std::string_view text);
inline bool is_valid_utf8(std::string_view text) { return valid_utf8_length(text) == text.size(); }

// Appends `text` with U+FFFD for each maximal part that is not UTF-8: after a valid lead byte the
// continuation bytes allowed at their places are taken, one U+FFFD stands for what was taken, and
// reading goes on at the first byte that did not fit. Returns the number of replacements.
Index append_valid_utf8(std::string_view text, std::string& out);

// The Unicode property White_Space.
bool is_white_space(char32_t c);
// What \w means in Unicode patterns: Alphabetic, marks, decimal digits, connectors, joiners.
bool is_word_character(char32_t c);

// Length of the run of white space that begins, or ends, `text`.
std::size_t leading_white_space(std::string_view text);
std::size_t trailing_white_space(std::string_view text);

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// Brings text into a normal form. Text that is in it already, by a quick check per character, is
// found without any work beyond reading it. Immutable after construction.
class FormNormalizer {
 public:
  explicit FormNormalizer(NormalForm form);

  // May say no for a text that is in the form; never yes for one that is not.
  bool is_surely_normal(std::string_view text) const { return first_unstable(text, 0) == npos; }
  // Appends the normal form of valid UTF-8.
  void append(std::string_view text, std::string& out) const;

 private:
  static constexpr std::size_t npos = std::string_view::npos;

  bool is_stable(char32_t c) const {
    return c >= kTableEnd || (unstable_[c / 64] >> (c % 64) & 1) == 0;
  }
  // Start of the first character from `at` on that may change or be changed by what is before it.
  std::size_t first_unstable(std::string_view text, std::size_t at) const;
  void append_mapped(std::string_view text, std::string& out) const;

  // No character from here on has a decomposition or a combining class.
  static constexpr char32_t kTableEnd = 0x30000;
  NormalForm form_;
  std::vector<std::uint64_t> unstable_;
};

}  // namespace zaya
