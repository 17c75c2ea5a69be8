// SPDX-License-Identifier: Apache-2.0
//
// The rows of one micro-batch as plain arrays. Reused from batch to batch, it stops allocating once
// it has held the largest one.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.h"
#include "data/plan.h"

namespace zaya {

// A run of tokens of one row that belong together: with isolated documents a piece of one document,
// otherwise the row. Padding at the end of a row is a segment of its own.
struct BatchSegment {
  Index row = 0;
  Index begin = 0, end = 0;  // in the flattened tokens, row * length + position
  bool is_padding = false;
  bool operator==(const BatchSegment&) const = default;
};

// A run of tokens of one row that come from one document of the row's source.
struct BatchDocument {
  Index row = 0;
  Index begin = 0, end = 0;  // in the flattened tokens, row * length + position
  Index document = 0;        // its number in the source
  bool operator==(const BatchDocument&) const = default;
};

struct Batch {
  Index rows = 0;                        // B
  Index length = 0;                      // S
  std::vector<std::int32_t> ids;         // [B, S], 0 at padding
  std::vector<std::int32_t> targets;     // [B, S], the token to predict; -1 = none
  std::vector<std::int32_t> positions;   // [B, S], from 0 in each segment
  std::vector<BatchSegment> segments;    // sorted, cover all B * S tokens
  std::vector<BatchDocument> documents;  // sorted, cover all tokens but padding
  Index num_targets = 0;
  Index num_padding = 0;        // tokens that stand for nothing; B * S - num_padding are text
  std::vector<Sample> samples;  // [B], where each row comes from
  Index first_sample = 0;       // number of the first row in the plan

  bool operator==(const Batch&) const = default;
};

}  // namespace zaya
