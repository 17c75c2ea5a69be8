// SPDX-License-Identifier: Apache-2.0
//
// The normalizer of a tokenizer: a chain of text -> text steps that runs on each stretch of text
// between added tokens.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/component.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace zaya {

// Two texts that steps write in turn; one per thread.
struct NormalizeScratch {
  std::string text, next;
};

// Immutable after construction.
class Normalizer {
 public:
  // The identity.
  Normalizer() = default;
  // Reads the member "normalizer" (null is the identity). Throws Error naming what is not
  // supported.
  Normalizer(const Json& json, const std::string& where);

  bool is_identity() const { return steps_.empty(); }
  // The result lives in `text` or in `scratch` until either changes.
  std::string_view apply(std::string_view text, NormalizeScratch& scratch,
                         RegexScratch& regex) const;

 private:
  struct ReplaceText {
    std::string from, to;
  };
  struct ReplacePattern {
    Regex from;
    std::string to;
  };
  struct Prepend {
    std::string text;
  };
  struct Strip {
    bool is_left, is_right;
  };
  using Step = std::variant<FormNormalizer, ReplaceText, ReplacePattern, Prepend, Strip>;

  void read(const Component& component);

  std::vector<Step> steps_;
};

// Appends `text` with each occurrence of `from` (not empty) replaced by `to`.
void append_replaced(std::string_view text, std::string_view from, std::string_view to,
                     std::string& out);

}  // namespace zaya
