// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <doctest/doctest.h>
#include <utf8proc.h>

#include <cstdlib>

#include "base/rng.h"

namespace zaya {

namespace {

std::string repaired(std::string_view text) {
  std::string out;
  append_valid_utf8(text, out);
  return out;
}

std::string normal(const FormNormalizer& normalizer, std::string_view text) {
  std::string out;
  normalizer.append(text, out);
  return out;
}

std::string library_nfc(const std::string& text) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  REQUIRE(length >= 0);
  std::string result(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(length));
  std::free(mapped);
  return result;
}

}  // namespace

TEST_CASE("each maximal part that is not UTF-8 becomes one replacement character") {
  const std::string r = "\xEF\xBF\xBD";
  CHECK(repaired("plain") == "plain");
  CHECK(repaired("\xFF") == r);
  CHECK(repaired("a\xE2\x82z") == "a" + r + "z");        // cut three-byte sequence: one
  CHECK(repaired("\xE0\x80\x80") == r + r + r);          // overlong: every byte
  CHECK(repaired("\xED\xA0\x80") == r + r + r);          // surrogate
  CHECK(repaired("\xF0\x9F\x98") == r);                  // cut at the end
  CHECK(repaired("\xF4\x90\x80\x80") == r + r + r + r);  // above U+10FFFF
  CHECK(repaired("\xC3\xC3\xA9") == r + "\xC3\xA9");
  CHECK(repaired(std::string("a\0b", 3)) == std::string("a\0b", 3));
  CHECK(valid_utf8_length("abcdefgh\xC3\xA9\xE2\x82") == 10);
}

TEST_CASE("all code points survive writing and reading in both directions") {
  for (char32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 97) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const std::string text = "x" + to_utf8(c);
    std::size_t at = 1;
    CHECK(next_code_point(text, at) == c);
    CHECK(at == text.size());
    CHECK(previous_code_point(text, at) == c);
    CHECK(at == 1);
    CHECK(is_valid_utf8(text));
  }
}

TEST_CASE("white space is the Unicode property, without the near misses") {
  for (const char32_t c : {0x09, 0x0D, 0x20, 0x85, 0xA0, 0x1680, 0x2000, 0x200A, 0x2028, 0x3000}) {
    CHECK(is_white_space(c));
  }
  for (const char32_t c : {0x08, 0x1C, 0x1F, 0x180E, 0x200B, 0xFEFF, 0x2060}) {
    CHECK_FALSE(is_white_space(c));
  }
  CHECK(leading_white_space(" \xE3\x80\x80\tx ") == 5);
  CHECK(trailing_white_space("x \xE3\x80\x80") == 4);
}

TEST_CASE("normal forms of stretches are those of the whole text") {
  const FormNormalizer nfc(NormalForm::nfc), nfd(NormalForm::nfd), nfkc(NormalForm::nfkc);
  CHECK(normal(nfc, "Cafe\xCC\x81!") == "Caf\xC3\xA9!");
  CHECK(normal(nfd, "Caf\xC3\xA9!") == "Cafe\xCC\x81!");
  CHECK(normal(nfkc, "\xEF\xAC\x81x") == "fix");
  CHECK(nfc.is_surely_normal("Caf\xC3\xA9 \xE6\xBC\xA2\xED\x95\x9C"));
  CHECK_FALSE(nfc.is_surely_normal("e\xCC\x81"));
  // Letters, marks of several classes, Hangul parts, singletons, and what composes to one.
  const char32_t alphabet[] = {'a',    'e',    ' ',    0xE9,   0x301,  0x323,  0x327,  0x1100,
                               0x1161, 0x11A8, 0xAC00, 0x212B, 0x1E69, 0x958,  0x9BE,  0x9C7,
                               0x344,  0x3B9,  0x345,  0x1F71, 0x2ADC, 0xFB1D, 0x1D15F};
  const Rng rng(3, "normal forms");
  std::uint64_t counter = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    const std::uint64_t length = rng.below(12, counter++);
    for (std::uint64_t i = 0; i < length; ++i) {
      append_utf8(alphabet[rng.below(std::size(alphabet), counter++)], text);
    }
    CHECK(normal(nfc, text) == library_nfc(text));
  }
}

}  // namespace zaya
