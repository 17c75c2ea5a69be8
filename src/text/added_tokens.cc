// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

#include <algorithm>

#include "base/check.h"
#include "text/unicode.h"

namespace zaya {

// Breadth first: a node stands for the sorted texts [begin, end), which share `depth` bytes.
TextMatcher::TextMatcher(std::vector<std::pair<std::string, std::uint32_t>> texts) {
  std::erase_if(texts, [](const auto& text) { return text.first.empty(); });
  std::stable_sort(texts.begin(), texts.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  texts.erase(std::unique(texts.begin(), texts.end(),
                          [](const auto& a, const auto& b) { return a.first == b.first; }),
              texts.end());
  if (texts.empty()) return;
  struct Range {
    std::size_t begin, end, depth;
  };
  std::vector<Range> ranges{{0, texts.size(), 0}};
  nodes_.emplace_back();
  for (std::size_t node = 0; node < ranges.size(); ++node) {
    Range range = ranges[node];
    if (texts[range.begin].first.size() == range.depth) {
      nodes_[node].value = texts[range.begin].second;
      ++range.begin;
    }
    nodes_[node].first_edge = static_cast<std::uint32_t>(edges_.size());
    while (range.begin < range.end) {
      const char byte = texts[range.begin].first[range.depth];
      std::size_t end = range.begin + 1;
      while (end < range.end && texts[end].first[range.depth] == byte) ++end;
      edges_.push_back(
          {static_cast<unsigned char>(byte), static_cast<std::uint32_t>(nodes_.size())});
      nodes_.emplace_back();
      ranges.push_back({range.begin, end, range.depth + 1});
      range.begin = end;
    }
    nodes_[node].num_edges = static_cast<std::uint32_t>(edges_.size()) - nodes_[node].first_edge;
  }
  for (std::uint32_t i = 0; i < nodes_[0].num_edges; ++i) roots_[edges_[i].byte] = edges_[i].node;
}

std::uint32_t TextMatcher::child(std::uint32_t node, unsigned char byte) const {
  const auto begin = edges_.begin() + nodes_[node].first_edge;
  const auto end = begin + nodes_[node].num_edges;
  const auto found = std::lower_bound(
      begin, end, byte, [](const Edge& edge, unsigned char wanted) { return edge.byte < wanted; });
  return found != end && found->byte == byte ? found->node : kNone;
}

std::optional<TextMatcher::Hit> TextMatcher::find(std::string_view text, std::size_t from) const {
  if (is_empty()) return std::nullopt;
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    std::uint32_t node = roots_[static_cast<unsigned char>(text[begin])];
    if (node == 0) continue;
    std::optional<Hit> longest;
    for (std::size_t at = begin + 1;; ++at) {
      if (nodes_[node].value != kNone) longest = Hit{begin, at, nodes_[node].value};
      if (at >= text.size()) break;
      node = child(node, static_cast<unsigned char>(text[at]));
      if (node == kNone) break;
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens,
                         const std::vector<std::string>& normalized_contents)
    : tokens_(std::move(tokens)) {
  ZAYA_CHECK(normalized_contents.size() == tokens_.size());
  std::vector<std::pair<std::string, std::uint32_t>> raw, normalized;
  // Special ones first: they win where two normalized contents are equal.
  for (const bool is_special : {true, false}) {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].is_special != is_special) continue;
      const auto index = static_cast<std::uint32_t>(i);
      if (tokens_[i].is_normalized) {
        normalized.emplace_back(normalized_contents[i], index);
      } else {
        raw.emplace_back(tokens_[i].content, index);
      }
    }
  }
  raw_ = TextMatcher(std::move(raw));
  normalized_ = TextMatcher(std::move(normalized));
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    const auto id = static_cast<std::size_t>(tokens_[i].id);
    ZAYA_CHECK(by_content_.add(tokens_[i].content, index) == Vocabulary::Added::yes);
    if (id >= by_id_.size()) by_id_.resize(id + 1, -1);
    by_id_[id] = index;
  }
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const std::optional<TokenId> index = by_content_.find(content);
  return index ? &tokens_[*index] : nullptr;
}

const AddedToken* AddedTokens::find(TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= by_id_.size() || by_id_[id] < 0) return nullptr;
  return &tokens_[by_id_[id]];
}

void AddedTokens::split(std::string_view text, bool is_normalized, bool skips_special,
                        std::vector<TextSlice>& out) const {
  const TextMatcher& matcher = is_normalized ? normalized_ : raw_;
  std::size_t done = 0, from = 0;
  while (const std::optional<TextMatcher::Hit> hit = matcher.find(text, from)) {
    from = hit->end;
    const AddedToken& token = tokens_[hit->value];
    if (skips_special && token.is_special) continue;
    std::size_t begin = hit->begin, end = hit->end;
    if (token.is_single_word) {
      std::size_t before = begin, after = end;
      if (before > 0 && is_word_character(previous_code_point(text, before))) continue;
      if (after < text.size() && is_word_character(next_code_point(text, after))) continue;
    }
    if (token.strips_left) {
      begin = std::max(done, begin - trailing_white_space(text.substr(0, begin)));
    }
    if (token.strips_right) end += leading_white_space(text.substr(end));
    if (begin > done) out.push_back({done, begin, std::nullopt});
    out.push_back({begin, end, token.id});
    done = end;
  }
  if (done < text.size()) out.push_back({done, text.size(), std::nullopt});
}

}  // namespace zaya
