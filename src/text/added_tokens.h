// SPDX-License-Identifier: Apache-2.0
//
// Added tokens: contents that are found in the text before the model sees it, such as
// <|endoftext|>. Those with `is_normalized` are looked for after the normalizer, all others before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/vocabulary.h"

namespace zaya {

struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool is_single_word = false;  // only where no word character touches it
  bool strips_left = false;     // swallows the white space before it
  bool strips_right = false;
  bool is_normalized = false;
  bool is_special = false;
};

// A set of texts; finds the leftmost of them, and the longest at that place. A trie whose edges
// stand side by side.
class TextMatcher {
 public:
  struct Hit {
    std::size_t begin, end;
    std::uint32_t value;
  };

  TextMatcher() = default;
  // Texts with their values; empty texts are left out, and of equal texts the first one counts.
  explicit TextMatcher(std::vector<std::pair<std::string, std::uint32_t>> texts);

  bool is_empty() const { return nodes_.empty(); }
  std::optional<Hit> find(std::string_view text, std::size_t from) const;

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Node {
    std::uint32_t first_edge = 0, num_edges = 0, value = kNone;
  };
  struct Edge {
    unsigned char byte;
    std::uint32_t node;
  };

  std::uint32_t child(std::uint32_t node, unsigned char byte) const;

  std::array<std::uint32_t, 256> roots_{};  // node after the first byte, or 0
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
};

// A stretch of text between added tokens, or one added token.
struct TextSlice {
  std::size_t begin, end;
  std::optional<TokenId> token;
};

// Immutable after construction.
class AddedTokens {
 public:
  AddedTokens() = default;
  // `normalized_contents[i]` is the content of tokens[i] after the normalizer; it is used for
  // tokens with is_normalized only.
  AddedTokens(std::vector<AddedToken> tokens, const std::vector<std::string>& normalized_contents);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* find(std::string_view content) const;
  const AddedToken* find(TokenId id) const;
  bool has_normalized() const { return !normalized_.is_empty(); }

  // Cuts valid UTF-8 at the tokens with is_normalized or at the others. With `skips_special`,
  // special tokens are found but left as text.
  void split(std::string_view text, bool is_normalized, bool skips_special,
             std::vector<TextSlice>& out) const;

 private:
  std::vector<AddedToken> tokens_;
  Vocabulary by_content_;            // ids are indices of tokens_
  std::vector<std::int32_t> by_id_;  // index of tokens_, or -1
  TextMatcher raw_, normalized_;
};

}  // namespace zaya
