// SPDX-License-Identifier: Apache-2.0
#include "data/repeats.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/hash.h"

namespace zaya {

namespace {

struct DigestHash {
  std::size_t operator()(const Hash128& digest) const { return digest.low; }
};

// The paragraphs of a text, without the blank lines and line ends around them.
std::vector<std::string_view> paragraphs_of(std::string_view text) {
  std::vector<std::string_view> paragraphs;
  std::size_t begin = std::string_view::npos, end = 0;  // of the open paragraph
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t line_end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, line_end - at);
    const std::size_t last = line.find_last_not_of(" \t\r\f\v");
    if (last == std::string_view::npos) {
      if (begin != std::string_view::npos) paragraphs.push_back(text.substr(begin, end - begin));
      begin = std::string_view::npos;
    } else {
      if (begin == std::string_view::npos) begin = at;
      end = at + last + 1;
    }
    at = line_end + 1;
  }
  if (begin != std::string_view::npos) paragraphs.push_back(text.substr(begin, end - begin));
  return paragraphs;
}

}  // namespace

struct RepeatFilter::Seen {
  std::unordered_set<Hash128, DigestHash> digests;
};

RepeatFilter::RepeatFilter(Unit unit) : unit_(unit), seen_(std::make_unique<Seen>()) {}
RepeatFilter::~RepeatFilter() = default;
RepeatFilter::RepeatFilter(RepeatFilter&&) noexcept = default;

bool RepeatFilter::keep(std::string& text) {
  if (unit_ == Unit::none || text.empty()) return true;
  const bool is_kept =
      unit_ == Unit::document ? seen_->digests.insert(hash128(text)).second : cut_paragraphs(text);
  if (!is_kept) ++num_documents_;
  return is_kept;
}

bool RepeatFilter::cut_paragraphs(std::string& text) {
  std::string left;
  Index num_cut = 0;
  for (const std::string_view paragraph : paragraphs_of(text)) {
    if (!seen_->digests.insert(hash128(paragraph)).second) {
      ++num_cut;
      continue;
    }
    if (!left.empty()) left += "\n\n";
    left += paragraph;
  }
  num_paragraphs_ += num_cut;
  if (num_cut == 0) return true;
  text.swap(left);
  return !text.empty();
}

}  // namespace zaya
