// SPDX-License-Identifier: Apache-2.0
#include "text/regex_dialect.h"

#include <fmt/core.h>

#include "base/error.h"
#include "text/regex.h"

namespace zaya {

namespace {

// Inner parts of character classes. White_Space; PCRE2's own \s has U+180E too.
constexpr std::string_view kSpace = R"(\t-\r\x{85}\p{Z})";
constexpr std::string_view kNoSpace =
    R"(\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF})"
    R"(\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";
// Oniguruma's \w: Alphabetic, marks, decimal digits, connectors, and the superscripts and fractions
// of Latin-1. PCRE2's own lacks the marks.
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})"
    R"(\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
constexpr std::string_view kHex = "0-9A-Fa-f";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Translator {
 public:
  Translator(std::string_view pattern, std::string_view where) : in_(pattern), where_(where) {}

  std::string run() {
    while (at_ < in_.size()) step();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view construct) const {
    throw Error{ErrorKind::usage,
                fmt::format("{}: {} in a pattern isn't supported: {}", where_, construct, in_)};
  }
  bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  void copy(std::size_t length) {
    out_ += in_.substr(at_, length);
    at_ += length;
  }
  void replace(std::size_t length, std::string_view text) {
    out_ += text;
    at_ += length;
  }
  void in_brackets(std::size_t length, std::string_view open, std::string_view inner) {
    replace(length, open);
    out_ += inner;
    out_ += ']';
  }

  void step() {
    switch (in_[at_]) {
      case '\\': return escape();
      case '[': return character_class();
      case '(': return group();
      case '{': return interval();
      default: copy(1);
    }
  }

  char escaped() const {
    if (at_ + 1 >= in_.size()) refuse("a backslash at the end");
    return in_[at_ + 1];
  }

  void escape() {
    const std::string word(kWord);
    switch (escaped()) {
      case 's': return in_brackets(2, "[", kSpace);
      case 'S': return in_brackets(2, "[^", kSpace);
      case 'w': return in_brackets(2, "[", kWord);
      case 'W': return in_brackets(2, "[^", kWord);
      case 'h': return in_brackets(2, "[", kHex);
      case 'H': return in_brackets(2, "[^", kHex);
      case 'b':
        return replace(
            2, "(?:(?<=[" + word + "])(?![" + word + "])|(?<![" + word + "])(?=[" + word + "]))");
      case 'B':
        return replace(
            2, "(?:(?<=[" + word + "])(?=[" + word + "])|(?<![" + word + "])(?![" + word + "]))");
      default: return common_escape("dDAzZGRXKntrfaekg");
    }
  }

  // Escapes with the same meaning inside and outside of classes; `as_is` lists the letters that
  // both dialects read alike.
  void common_escape(std::string_view as_is) {
    const char c = escaped();
    if (c == 'p' || c == 'P') return property();
    if (c == 'u' || c == 'x') return code_point();
    if (c == 'v') return replace(2, R"(\x{0B})");
    if (is_letter(c) && as_is.find(c) == as_is.npos) refuse(fmt::format("\\{}", c));
    if (static_cast<unsigned char>(c) >= 0x80) return replace(1, "");
    copy(2);
  }

  void code_point() {
    const bool is_braced = in_.substr(at_).starts_with("\\x{");
    std::size_t begin = at_ + (is_braced ? 3 : 2), end = begin;
    const std::size_t longest = is_braced ? 8 : escaped() == 'u' ? 4 : 2;
    while (end < in_.size() && end - begin < longest &&
           kHexDigits.find(in_[end]) != kHexDigits.npos) {
      ++end;
    }
    const std::string digits(in_.substr(begin, end - begin));
    if (digits.empty() || (escaped() == 'u' && digits.size() != 4)) refuse("a broken \\x or \\u");
    if (is_braced && (end >= in_.size() || in_[end] != '}')) refuse("a broken \\x{...}");
    const unsigned long value = std::stoul(digits, nullptr, 16);
    // \xHH from 80 on means a byte of UTF-8 there, not a character.
    if (escaped() == 'x' && !is_braced && value >= 0x80) refuse("\\x of a byte above 7F");
    replace(end + (is_braced ? 1 : 0) - at_, fmt::format("\\x{{{:X}}}", value));
  }

  // General categories are the same; PCRE2 reads a script's plain name as Script_Extensions.
  void property() {
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{') refuse("\\p without braces");
    const std::size_t close = in_.find('}', at_);
    if (close == in_.npos) refuse("a broken \\p{...}");
    std::string name(in_.substr(at_ + 3, close - at_ - 3));
    bool is_negated = in_[at_ + 1] == 'P';
    if (name.starts_with('^')) {
      is_negated = !is_negated;
      name.erase(0, 1);
    }
    for (const char c : name) {
      if (!is_letter(c) && !is_digit(c) && c != '_') refuse("\\p{" + name + "}");
    }
    if (name.size() > 2 && is_pcre_pattern("\\p{sc:" + name + "}")) name = "sc:" + name;
    replace(close + 1 - at_, fmt::format("\\{}{{{}}}", is_negated ? 'P' : 'p', name));
  }

  void character_class() {
    copy(1);
    if (next_is("^")) copy(1);
    if (next_is("]")) refuse("an empty class");
    while (at_ < in_.size() && in_[at_] != ']') {
      if (next_is("&&")) refuse("&& (intersection)");
      if (in_[at_] == '[') refuse("a class inside a class");
      if (in_[at_] == '\\') {
        class_escape();
      } else {
        copy(1);
      }
    }
    if (at_ >= in_.size()) refuse("a class without end");
    copy(1);
  }

  void class_escape() {
    switch (escaped()) {
      case 's': return replace(2, kSpace);
      case 'S': return replace(2, kNoSpace);
      case 'w': return replace(2, kWord);
      case 'h': return replace(2, kHex);
      case 'W':
      case 'H': refuse(fmt::format("\\{} inside a class", escaped()));
      default: return common_escape("dDntrfaeb");
    }
  }

  void group() {
    if (next_is("(*")) refuse("(*");
    if (!next_is("(?")) return copy(1);
    for (const std::string_view open : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (next_is(open)) return copy(open.size());
    }
    if (next_is("(?#")) {
      const std::size_t close = in_.find(')', at_);
      if (close == in_.npos) refuse("a comment without end");
      at_ = close + 1;
      return;
    }
    if (next_is("(?<")) return copy(3);
    options();
  }

  // (?imx-imx) and (?imx-imx:...). Ruby's m is what PCRE2 calls s.
  void options() {
    const std::size_t begin = at_;
    std::string translated = "(?";
    std::size_t end = at_ + 2;
    while (end < in_.size() && (is_letter(in_[end]) || in_[end] == '-')) {
      const char c = in_[end++];
      if (std::string_view("imx-").find(c) == std::string_view::npos) {
        refuse(fmt::format("the group (?{}", c));
      }
      translated += c == 'm' ? 's' : c;
    }
    if (end >= in_.size() || end == at_ + 2) refuse("this kind of group (?");
    if (in_[end] == ')') {
      // Ruby puts all that follows, alternatives included, under the options. That is the same only
      // at the start of a pattern.
      if (begin != 0) refuse("options in the middle");
      translated += ')';
    } else if (in_[end] == ':') {
      translated += ':';
    } else {
      refuse("this kind of group (?");
    }
    replace(end + 1 - at_, translated);
  }

  // {n}, {n,}, {,m} and {n,m}; any other brace is itself.
  void interval() {
    std::size_t end = at_ + 1;
    while (end < in_.size() && is_digit(in_[end])) ++end;
    const bool has_low = end > at_ + 1;
    bool is_range = false, has_high = false;
    if (end < in_.size() && in_[end] == ',') {
      is_range = true;
      const std::size_t begin = ++end;
      while (end < in_.size() && is_digit(in_[end])) ++end;
      has_high = end > begin;
    }
    if (end >= in_.size() || in_[end] != '}' || (!has_low && !has_high)) {
      return replace(1, "\\{");
    }
    ++end;
    // Ruby reads {n,m}+ as a repeated repeat and {n}? as an optional one.
    if (end < in_.size() && in_[end] == '+') refuse("{n,m}+");
    if (end < in_.size() && in_[end] == '?' && !is_range) refuse("{n}?");
    if (has_low) return copy(end - at_);
    replace(1, "{0");
    copy(end - at_);
  }

  static constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";
  std::string_view in_, where_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string to_pcre(std::string_view pattern, std::string_view where) {
  return Translator(pattern, where).run();
}

}  // namespace zaya
