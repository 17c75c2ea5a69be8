// SPDX-License-Identifier: Apache-2.0
#include "text/regex.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "text/regex_dialect.h"

namespace zaya {

namespace {

std::vector<std::string> all_matches(std::string_view pattern, std::string_view text) {
  const Regex regex(pattern, "t");
  RegexScratch scratch;
  MatchIterator matches(regex, text, scratch);
  std::vector<std::string> found;
  while (const std::optional<Match> match = matches.next()) {
    found.emplace_back(text.substr(match->begin, match->end - match->begin));
  }
  return found;
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("patterns have Ruby's meaning") {
  CHECK(all_matches(R"(\s+)", "a\xC2\x85z\xE1\xA0\x8E \t") == Strings{"\xC2\x85", " \t"});
  CHECK(all_matches(R"([^\s]+)", "a\xE1\xA0\x8E z") == Strings{"a\xE1\xA0\x8E", "z"});
  CHECK(all_matches(R"([\S]+)", "a\xE3\x80\x80z") == Strings{"a", "z"});
  CHECK(all_matches(R"(\w+)", "e\xCC\x81_1-x") == Strings{"e\xCC\x81_1", "x"});
  CHECK(all_matches(R"(\w+)", "x\xC2\xBD-\xE2\x91\xA0") == Strings{"x\xC2\xBD"});
  CHECK(all_matches(R"(\h+)", "xyzA1f") == Strings{"A1f"});
  CHECK(all_matches(R"(\bx)", "x ax x") == Strings{"x", "x"});
  CHECK(all_matches("^a", "a\na") == Strings{"a", "a"});
  CHECK(all_matches("(?m:a.b)", "a\nb") == Strings{"a\nb"});
  CHECK(all_matches("a{,2}b", "aaab") == Strings{"aab"});
  CHECK(all_matches("x{a}", "x{a}") == Strings{"x{a}"});
  CHECK(all_matches(R"((?i:'s))", "'\xC5\xBF 'S") == Strings{"'\xC5\xBF", "'S"});
  CHECK(all_matches(R"(\u0041\x42)", "AB") == Strings{"AB"});
  // The script, not its extensions: U+3001 is used with Han but common.
  CHECK(all_matches(R"(\p{Han}+)", "\xE6\xBC\xA2\xE3\x80\x81") == Strings{"\xE6\xBC\xA2"});
  CHECK(all_matches(R"(\p{^L}+)", "ab12") == Strings{"12"});
}

TEST_CASE("empty matches go on and never stand right behind a match") {
  CHECK(all_matches("x*", "axb") == Strings{"", "x", ""});
  CHECK(all_matches("", "\xC3\xA9") == Strings{"", ""});
}

TEST_CASE("what has no sure translation is refused with the pattern") {
  for (const char* pattern :
       {"[a&&b]",  "[a[bc]]", "[[:alpha:]]", "a{1,2}+", "a{2}?", "(*SKIP)",      "x(?i)y", "(?~a)",
        "\\Qa\\E", "[\\W]",   "\\p{Latin",   "\\pL",    "\\xE9", "\\u12",        "a\\",    "[]",
        "[ab",     "(?s:a)",  "\\M-a",       "(?#",     "(a",    "\\p{Nonsense}"}) {
    CAPTURE(pattern);
    CHECK_THROWS_AS(Regex(pattern, "t"), Error);
  }
  CHECK_THROWS_WITH(Regex("[a&&b]", "t: x"),
                    "t: x: && (intersection) in a pattern isn't supported: [a&&b]");
}

TEST_CASE("a pattern that needs too many steps is an error and not a hang") {
  const Regex regex("(x+x+)+[yz]", "t");
  RegexScratch scratch;
  CHECK_THROWS_AS(regex.find(std::string(60, 'x'), 0, scratch), Error);
}

}  // namespace zaya
