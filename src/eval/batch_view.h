// SPDX-License-Identifier: Apache-2.0
//
// A data batch as layers and kernels see it: each text segment is a segment and an attention span;
// padding is a segment without a span.
#pragma once

#include <vector>

#include "backend/batch.h"
#include "data/batch.h"

namespace zaya {

class BatchView {
 public:
  // Valid until the next call, as long as `batch` lives unchanged: ids, targets and positions stay
  // in the batch.
  const TokenBatch& assign(const Batch& batch);

 private:
  std::vector<Segment> segments_;
  std::vector<AttentionSpan> spans_;
  TokenBatch tokens_;
};

}  // namespace zaya
