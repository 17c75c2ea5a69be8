// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <fmt/core.h>
#include <utf8proc.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/check.h"

namespace zaya {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Sequence {
  std::size_t length;  // bytes taken
  bool is_valid;
};

// The character at text[at], or the longest part of one. Well-formed sequences are table 3-7 of the
// Unicode standard: only the second byte's range depends on the lead.
Sequence read_sequence(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  std::size_t taken = 1;
  while (taken < length && at + taken < text.size()) {
    const auto byte = static_cast<unsigned char>(text[at + taken]);
    if (byte < low || byte > high) break;
    low = 0x80;
    high = 0xBF;
    ++taken;
  }
  return {taken, taken == length};
}

std::size_t ascii_run(std::string_view text, std::size_t at) {
  while (at + 8 <= text.size()) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    if ((word & 0x8080808080808080u) != 0) break;
    at += 8;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

utf8proc_option_t mapping_options(NormalForm form) {
  int options = UTF8PROC_STABLE;
  const bool is_composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  options |= is_composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::nfkc || form == NormalForm::nfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

}  // namespace

char32_t previous_code_point(std::string_view text, std::size_t& at) {
  do {
    --at;
  } while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  std::size_t begin = at;
  return next_code_point(text, begin);
}

void append_utf8(char32_t c, std::string& out) {
  const auto add = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0 | c >> 6);
    add(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    add(0xE0 | c >> 12);
    add(0x80 | (c >> 6 & 0x3F));
    add(0x80 | (c & 0x3F));
  } else {
    add(0xF0 | c >> 18);
    add(0x80 | (c >> 12 & 0x3F));
    add(0x80 | (c >> 6 & 0x3F));
    add(0x80 | (c & 0x3F));
  }
}

std::string to_utf8(char32_t c) {
  std::string out;
  append_utf8(c, out);
  return out;
}

std::size_t valid_utf8_length(std::string_view text) {
  std::size_t at = 0;
  while ((at = ascii_run(text, at)) < text.size()) {
    while (at < text.size() && static_cast<unsigned char>(text[at]) >= 0x80) {
      const Sequence sequence = read_sequence(text, at);
      if (!sequence.is_valid) return at;
      at += sequence.length;
    }
  }
  return at;
}

Index append_valid_utf8(std::string_view text, std::string& out) {
  Index num_replaced = 0;
  while (true) {
    const std::size_t valid = valid_utf8_length(text);
    out.append(text.substr(0, valid));
    if (valid == text.size()) return num_replaced;
    out += kReplacement;
    ++num_replaced;
    text.remove_prefix(valid + read_sequence(text, valid).length);
  }
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_word_character(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: break;
  }
  // The joiners, and the circled and squared letters, which are Alphabetic symbols.
  return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
         (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

std::size_t leading_white_space(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t next = at;
    if (!is_white_space(next_code_point(text, next))) break;
    at = next;
  }
  return at;
}

std::size_t trailing_white_space(std::string_view text) {
  std::size_t at = text.size();
  while (at > 0) {
    std::size_t before = at;
    if (!is_white_space(previous_code_point(text, before))) break;
    at = before;
  }
  return text.size() - at;
}

// A character is stable when it starts a new unit (combining class 0), maps to itself, and can't
// join the one before it. The second half of every composition is the last character of some full
// decomposition; the vowels and finals of Hangul join by rule.
FormNormalizer::FormNormalizer(NormalForm form) : form_(form), unstable_(kTableEnd / 64) {
  const bool is_composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  const auto mark = [&](char32_t c) { unstable_[c / 64] |= std::uint64_t{1} << (c % 64); };
  const auto options = static_cast<utf8proc_option_t>(mapping_options(form) & ~UTF8PROC_COMPOSE);
  std::array<utf8proc_int32_t, 64> mapped;
  for (char32_t c = 0; c < kTableEnd; ++c) {
    const auto code = static_cast<utf8proc_int32_t>(c);
    const utf8proc_property_t* property = utf8proc_get_property(code);
    if (property->combining_class != 0) mark(c);
    const utf8proc_ssize_t length = utf8proc_decompose_char(
        code, mapped.data(), static_cast<utf8proc_ssize_t>(mapped.size()),
        static_cast<utf8proc_option_t>(options | UTF8PROC_DECOMPOSE), nullptr);
    const bool is_itself = length == 1 && mapped[0] == code;
    if (is_itself || length < 1 || length > static_cast<utf8proc_ssize_t>(mapped.size())) continue;
    const auto last = static_cast<char32_t>(mapped[length - 1]);
    if (!is_composed) {
      mark(c);
    } else {
      if (length > 1) mark(last);
      const std::string text = to_utf8(c);
      std::string form_text;
      append_mapped(text, form_text);
      if (form_text != text) mark(c);
    }
  }
}

std::size_t FormNormalizer::first_unstable(std::string_view text, std::size_t at) const {
  while (at < text.size()) {
    at = ascii_run(text, at);
    while (at < text.size() && static_cast<unsigned char>(text[at]) >= 0x80) {
      const std::size_t begin = at;
      if (!is_stable(next_code_point(text, at))) return begin;
    }
  }
  return npos;
}

// Works on the shortest stretches that begin and end before a stable character.
void FormNormalizer::append(std::string_view text, std::string& out) const {
  std::size_t copied = 0;
  while (copied < text.size()) {
    const std::size_t unstable = first_unstable(text, copied);
    if (unstable == npos) break;
    std::size_t begin = unstable;
    if (begin > copied) previous_code_point(text, begin);
    std::size_t end = unstable;
    while (end < text.size()) {
      std::size_t next = end;
      if (is_stable(next_code_point(text, next))) break;
      end = next;
    }
    out.append(text.substr(copied, begin - copied));
    append_mapped(text.substr(begin, end - begin), out);
    copied = end;
  }
  out.append(text.substr(copied));
}

void FormNormalizer::append_mapped(std::string_view text, std::string& out) const {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped, mapping_options(form_));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (length == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  ZAYA_CHECK(length >= 0, fmt::format("utf8proc says {}", utf8proc_errmsg(length)));
  out.append(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(length));
}

}  // namespace zaya
