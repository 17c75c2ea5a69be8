// SPDX-License-Identifier: Apache-2.0
//
// Compiled patterns in the dialect of tokenizer files. PCRE2 (with its JIT compiler) stays in
// regex.cc.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace zaya {

struct Match {
  std::size_t begin = 0, end = 0;
};

// What matching needs beside the pattern; one for each thread, for any number of patterns.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(RegexScratch&&) noexcept;
  RegexScratch& operator=(RegexScratch&&) noexcept;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

// Immutable; any number of threads may search with it, each with its own scratch.
class Regex {
 public:
  // Throws Error{usage} that begins with `where` and shows the pattern when it can't be compiled.
  Regex(std::string_view pattern, std::string_view where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  const std::string& pattern() const { return pattern_; }

  // The leftmost match that begins at or after `from` in valid UTF-8; `from` is a character's
  // start. Throws Error{damaged} when the pattern needs more memory or steps than the limits allow.
  std::optional<Match> find(std::string_view text, std::size_t from, RegexScratch& scratch) const;

 private:
  struct Code;
  std::string pattern_;
  std::unique_ptr<const Code> code_;
};

// All matches of a pattern from left to right. An empty match right behind the match before it is
// passed over.
class MatchIterator {
 public:
  MatchIterator(const Regex& regex, std::string_view text, RegexScratch& scratch)
      : regex_(regex), text_(text), scratch_(scratch) {}
  std::optional<Match> next();

 private:
  const Regex& regex_;
  std::string_view text_;
  RegexScratch& scratch_;
  std::size_t from_ = 0;
  std::optional<std::size_t> last_end_;
};

// Does PCRE2 accept this as it is?
bool is_pcre_pattern(const std::string& pattern);

}  // namespace zaya
