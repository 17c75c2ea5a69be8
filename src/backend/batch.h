// SPDX-License-Identifier: Apache-2.0
//
// What kernels know about the tokens of one call: T tokens in a row, cut into segments.
#pragma once

#include <span>

#include "base/types.h"
#include "tensor/tensor.h"

namespace zaya {

// A run of tokens whose convolution history and delayed value start at `begin`: one document of a
// packed row, or one row. `history` is the row of the decode state that holds what came before
// token `begin`, or -1: nothing came before (zeros).
struct Segment {
  Index begin = 0, end = 0;
  Index history = -1;
};

// Queries [q_begin, q_end) see keys [k_begin, k_end). The last query lines up with the last key:
// query q_end - 1 - i sees keys up to k_end - 1 - i, and no key before k_begin.
struct AttentionSpan {
  Index q_begin = 0, q_end = 0;
  Index k_begin = 0, k_end = 0;
};

// The tokens of one pass, seen by layers and kernels. Owned by the caller; unchanged until backward
// is done. Segments and spans are sorted, do not overlap, and segments cover all T tokens.
struct TokenBatch {
  ConstTensor ids;        // [T] i32
  ConstTensor targets;    // [T] i32, the token to predict; -1 = none. None (no tensor) = no loss.
  ConstTensor positions;  // [T] i32, for the rotary embedding
  // [T] u8, 1 where the token is padding: its row is zeroed before the projections of attention and
  // as a key it is hidden. None (no tensor) = no padding.
  ConstTensor padding;
  std::span<const Segment> segments;
  std::span<const AttentionSpan> spans;
  Index num_tokens() const { return ids.count(); }
};

}  // namespace zaya
