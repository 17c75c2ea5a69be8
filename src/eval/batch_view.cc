// SPDX-License-Identifier: Apache-2.0
#include "eval/batch_view.h"

namespace zaya {

const TokenBatch& BatchView::assign(const Batch& batch) {
  segments_.clear();
  spans_.clear();
  for (const BatchSegment& segment : batch.segments) {
    segments_.push_back({segment.begin, segment.end, -1});
    if (!segment.is_padding) {
      spans_.push_back({segment.begin, segment.end, segment.begin, segment.end});
    }
  }
  tokens_.ids = tensor_over(batch.ids);
  tokens_.targets = tensor_over(batch.targets);
  tokens_.positions = tensor_over(batch.positions);
  tokens_.segments = segments_;
  tokens_.spans = spans_;
  return tokens_;
}

}  // namespace zaya
