// SPDX-License-Identifier: Apache-2.0
//
// Builds the TokenBatch of plain rows [B, S] (scoring, evaluation, tests) and of the new tokens of
// several growing sequences (generation). Owns what the batch points to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "model/decode_state.h"

namespace zaya {

class TokenRows {
 public:
  // B = ids.size() / length rows. mask (same size, 0 = padding) may be empty: no padding. Each row
  // is one segment; padding is zeroed and hidden, as the published code does.
  TokenRows(std::span<const std::int32_t> ids, Index length,
            std::span<const std::uint8_t> mask = {});

  // The next tokens of sequences of a decode state: rows[i] is continued by tokens[i]. Keys before
  // first_key[i] are hidden (left padding); first_key may be empty.
  TokenRows(const DecodeState& state, std::span<const Index> rows,
            std::span<const std::vector<std::int32_t>> tokens,
            std::span<const Index> first_key = {});
  TokenRows(const TokenRows&) = delete;
  TokenRows& operator=(const TokenRows&) = delete;

  // Target of each token, -1 = none; size B * S.
  void set_targets(std::vector<std::int32_t> targets);
  // Marks padding of a decode batch, where [i] is 1; size = number of tokens.
  void set_padding(std::vector<std::uint8_t> padding);

  const TokenBatch& batch() const { return batch_; }

 private:
  void point_to_members();

  std::vector<std::int32_t> ids_, targets_, positions_;
  std::vector<std::uint8_t> padding_;
  std::vector<Segment> segments_;
  std::vector<AttentionSpan> spans_;
  TokenBatch batch_;
};

}  // namespace zaya
