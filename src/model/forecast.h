// SPDX-License-Identifier: Apache-2.0
//
// Memory and work of a pass before anything is allocated: the real layers run on dry arenas with
// the count backend.
#pragma once

#include "model/model.h"

namespace zaya {

struct PassShape {
  Index rows = 1, length = 1;  // B sequences of S positions
  bool has_gradients = false;
  bool recomputes = false;
  bool has_trace = false;
  // Incremental generation: `rows` sequences receive `length` tokens each, with room for
  // `capacity` in all. 0 = no decode state.
  Index capacity = 0;
  // Rows of logits made after encode(); 0 = the loss is computed instead.
  Index logit_rows = 0;
};

struct PassForecast {
  Index saved_bytes = 0, scratch_bytes = 0;
  WorkCount work;
};

PassForecast forecast_pass(const ModelConfig& config, Numerics numerics, const PassShape& shape);

}  // namespace zaya
