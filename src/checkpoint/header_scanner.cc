// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/header_scanner.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/json.h"

namespace zaya {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u; }

// Bytes of the well-formed sequence at `at`, 0 when there is none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const unsigned lead = static_cast<unsigned char>(text[at]);
  const std::size_t length = lead < 0x80                    ? 1
                             : lead >= 0xc2 && lead <= 0xdf ? 2
                             : lead >= 0xe0 && lead <= 0xef ? 3
                             : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                            : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[at + i])) return 0;
  }
  if (length < 3) return length;
  // Overlong forms, surrogates, and code points above U+10FFFF.
  const unsigned second = static_cast<unsigned char>(text[at + 1]);
  if (lead == 0xe0 && second < 0xa0) return 0;
  if (lead == 0xed && second > 0x9f) return 0;
  if (lead == 0xf0 && second < 0x90) return 0;
  if (lead == 0xf4 && second > 0x8f) return 0;
  return length;
}

void append_utf8(unsigned code, std::string& out) {
  const auto put = [&](unsigned byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | (code >> 6));
    put(0x80 | (code & 63));
  } else if (code < 0x10000) {
    put(0xe0 | (code >> 12));
    put(0x80 | ((code >> 6) & 63));
    put(0x80 | (code & 63));
  } else {
    put(0xf0 | (code >> 18));
    put(0x80 | ((code >> 12) & 63));
    put(0x80 | ((code >> 6) & 63));
    put(0x80 | (code & 63));
  }
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight = 0;
    if (at + 8 <= text.size()) {
      std::memcpy(&eight, text.data() + at, 8);
      if ((eight & 0x8080808080808080u) == 0) {
        at += 8;
        continue;
      }
    }
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string shown_name(std::string_view name) {
  constexpr std::size_t kLongest = 100;
  if (name.size() <= kLongest) return json_quote(name);
  std::size_t length = kLongest;
  while (length > 0 && is_continuation(name[length])) --length;
  return json_quote(std::string(name.substr(0, length)) + "...");
}

void HeaderScanner::fail(std::string_view what) const {
  throw Error{ErrorKind::damaged, fmt::format("{}: header byte {}: {}", where_, at_, what)};
}

void HeaderScanner::skip_space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
    ++at_;
  }
}

bool HeaderScanner::accept(char c) {
  skip_space();
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

void HeaderScanner::require(char c) {
  if (accept(c)) return;
  fail(at_ < text_.size() ? fmt::format("not valid JSON: expected '{}'", c)
                          : fmt::format("the header ends where '{}' is expected", c));
}

void HeaderScanner::enter(char open) {
  require(open);
  if (++depth_ > kMaxDepth) fail("nested deeper than 128 levels");
}

unsigned HeaderScanner::hex4() {
  unsigned value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    const int digit = is_digit(c)            ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) fail("not valid JSON: \\u needs four hexadecimal digits");
    value = value * 16 + static_cast<unsigned>(digit);
    ++at_;
  }
  return value;
}

void HeaderScanner::escape(std::string& out) {
  const char c = at_ < text_.size() ? text_[at_++] : '\0';
  switch (c) {
    case '"':
    case '\\':
    case '/': out += c; return;
    case 'b': out += '\b'; return;
    case 'f': out += '\f'; return;
    case 'n': out += '\n'; return;
    case 'r': out += '\r'; return;
    case 't': out += '\t'; return;
    case 'u': break;
    default: fail("not valid JSON: unknown escape in a string");
  }
  unsigned code = hex4();
  if (code >= 0xdc00 && code <= 0xdfff) fail("not valid JSON: lone surrogate in a string");
  if (code >= 0xd800 && code <= 0xdbff) {
    if (text_.substr(at_, 2) != "\\u") fail("not valid JSON: lone surrogate in a string");
    at_ += 2;
    const unsigned low = hex4();
    if (low < 0xdc00 || low > 0xdfff) fail("not valid JSON: lone surrogate in a string");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  append_utf8(code, out);
}

std::string HeaderScanner::string() {
  skip_space();
  if (at_ >= text_.size() || text_[at_] != '"') fail("expected a string");
  ++at_;
  std::string out;
  while (true) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<unsigned char>(text_[at_]) >= 0x20) {
      ++at_;
    }
    out.append(text_, begin, at_ - begin);
    if (at_ >= text_.size()) fail("the header ends inside a string");
    const char c = text_[at_];
    if (c != '"' && c != '\\') fail("not valid JSON: control character in a string");
    ++at_;
    if (c == '"') return out;
    escape(out);
  }
}

std::uint64_t HeaderScanner::unsigned_integer() {
  skip_space();
  const std::size_t begin = at_;
  std::uint64_t value = 0;
  bool is_too_large = false;
  while (at_ < text_.size() && is_digit(text_[at_])) {
    is_too_large |= __builtin_mul_overflow(value, std::uint64_t{10}, &value);
    is_too_large |=
        __builtin_add_overflow(value, static_cast<std::uint64_t>(text_[at_] - '0'), &value);
    ++at_;
  }
  const char next = at_ < text_.size() ? text_[at_] : '\0';
  const bool has_leading_zero = at_ - begin > 1 && text_[begin] == '0';
  if (at_ == begin || has_leading_zero || next == '.' || next == 'e' || next == 'E') {
    at_ = begin;
    fail("expected an integer from 0 to 2^64-1, written with digits only");
  }
  if (is_too_large) fail("integer above 2^64-1");
  return value;
}

bool HeaderScanner::accept_null() {
  skip_space();
  if (text_.substr(at_, 4) != "null") return false;
  at_ += 4;
  return true;
}

void HeaderScanner::literal(std::string_view word) {
  if (text_.substr(at_, word.size()) != word) fail("not valid JSON: expected a value");
  at_ += word.size();
}

void HeaderScanner::number() {
  const std::size_t begin = at_;
  const auto digits = [&] {
    const std::size_t first = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    if (at_ == first) fail("not valid JSON: expected a digit");
    return at_ - first;
  };
  const auto next_is = [&](char c) { return at_ < text_.size() && text_[at_] == c; };
  if (next_is('-')) ++at_;
  const bool starts_with_zero = next_is('0');
  if (digits() > 1 && starts_with_zero) fail("not valid JSON: number with a leading zero");
  if (next_is('.')) {
    ++at_;
    digits();
  }
  if (next_is('e') || next_is('E')) {
    ++at_;
    if (next_is('+') || next_is('-')) ++at_;
    digits();
  }
  const std::string copy(text_.substr(begin, at_ - begin));
  if (!std::isfinite(std::strtod(copy.c_str(), nullptr))) fail("number out of range");
}

void HeaderScanner::skip_value() {
  skip_space();
  switch (at_ < text_.size() ? text_[at_] : '\0') {
    case '{': return object([&](const std::string&) { skip_value(); });
    case '[': return array([&] { skip_value(); });
    case '"': static_cast<void>(string()); return;
    case 't': return literal("true");
    case 'f': return literal("false");
    case 'n': return literal("null");
    default: return number();
  }
}

void HeaderScanner::end() {
  skip_space();
  if (at_ < text_.size()) fail("text after the header's JSON object");
}

}  // namespace zaya
