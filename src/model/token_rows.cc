// SPDX-License-Identifier: Apache-2.0
#include "model/token_rows.h"

#include <algorithm>
#include <utility>

namespace zaya {

TokenRows::TokenRows(std::span<const std::int32_t> ids, Index length,
                     std::span<const std::uint8_t> mask)
    : ids_(ids.begin(), ids.end()) {
  ZAYA_CHECK(length > 0 && static_cast<Index>(ids.size()) % length == 0);
  ZAYA_CHECK(mask.empty() || mask.size() == ids.size());
  const Index rows = static_cast<Index>(ids.size()) / length;
  if (std::find(mask.begin(), mask.end(), 0) != mask.end()) {
    for (const std::uint8_t is_token : mask) padding_.push_back(is_token == 0);
  }
  for (Index row = 0; row < rows; ++row) {
    const Index begin = row * length, end = begin + length;
    segments_.push_back({begin, end, -1});
    spans_.push_back({begin, end, begin, end});
    for (Index t = 0; t < length; ++t) positions_.push_back(static_cast<std::int32_t>(t));
  }
  point_to_members();
}

TokenRows::TokenRows(const DecodeState& state, std::span<const Index> rows,
                     std::span<const std::vector<std::int32_t>> tokens,
                     std::span<const Index> first_key) {
  ZAYA_CHECK(rows.size() == tokens.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Index begin = static_cast<Index>(ids_.size());
    const Index count = static_cast<Index>(tokens[i].size());
    const Index known = state.length(rows[i]), base = rows[i] * state.capacity();
    const Index hidden = first_key.empty() ? 0 : first_key[i];
    ids_.insert(ids_.end(), tokens[i].begin(), tokens[i].end());
    // Rotary angles enter through differences only, so the first real key may stand anywhere.
    for (Index t = 0; t < count; ++t) {
      positions_.push_back(static_cast<std::int32_t>(known + t));
    }
    segments_.push_back({begin, begin + count, known > 0 ? rows[i] : -1});
    spans_.push_back({begin, begin + count, base + hidden, base + known + count});
  }
  point_to_members();
}

void TokenRows::set_targets(std::vector<std::int32_t> targets) {
  ZAYA_CHECK(targets.size() == ids_.size());
  targets_ = std::move(targets);
  point_to_members();
}

void TokenRows::set_padding(std::vector<std::uint8_t> padding) {
  ZAYA_CHECK(padding.size() == ids_.size());
  padding_ = std::move(padding);
  point_to_members();
}

void TokenRows::point_to_members() {
  batch_.ids = tensor_over(ids_);
  batch_.targets = tensor_over(targets_);
  batch_.positions = tensor_over(positions_);
  batch_.padding = tensor_over(padding_);
  batch_.segments = segments_;
  batch_.spans = spans_;
}

}  // namespace zaya
