// SPDX-License-Identifier: Apache-2.0
//
// Held-out loss over an exact set of tokens: every target of the set counts once, whatever the
// batch size.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/types.h"
#include "model/forecast.h"

namespace zaya {

struct LossSum {
  double sum = 0;   // of -log p, natural logarithm
  Index count = 0;  // targets
  double mean() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
};

// Evaluates rows of tokens one micro-batch after the other with its own memory, so that it never
// disturbs training. Rows are evaluated one by one in the order given: the sums do not depend on
// how many rows a call holds.
class Evaluator {
 public:
  // `max_tokens`: most tokens of one batch.
  Evaluator(const Model& model, const Backend& backend, Index max_tokens, bool skip_is_identity);

  LossSum evaluate(const TokenBatch& batch);
  // Bytes that an Evaluator takes.
  static Index bytes(const ModelConfig& config, Numerics numerics, Index max_tokens);

 private:
  Evaluator(const Model& model, const Backend& backend, bool skip_is_identity,
            const PassForecast& pass);

  const Model& model_;
  const Backend& backend_;
  bool skip_is_identity_;
  Arena saved_, scratch_;
};

}  // namespace zaya
