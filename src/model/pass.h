// SPDX-License-Identifier: Apache-2.0
//
// What one trip through the model needs. There are no globals.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/batch.h"
#include "base/profile.h"
#include "model/params.h"
#include "tensor/arena.h"

namespace zaya {

class DecodeState;

// Tensors of a forward pass that an observer asked for; they live in the saved arena.
struct Trace {
  std::vector<ConstTensor> hidden;  // stream before block 0, after block 0, ...: [T, D] stream type
  ConstTensor final;                // after the last norm [T, D] compute type
  std::vector<ConstTensor> router_probs, router_choice, router_weight;
};

struct Pass {
  const Backend& backend;
  Arena& saved;    // what backward reads
  Arena& scratch;  // within a call
  const TokenBatch& batch;
  Tensor loads;  // [L, E+1] i64: tokens per class and block of this pass
  // Forward only when null.
  const Gradients* gradients = nullptr;
  // Incremental generation: keys, values and convolution history of earlier tokens.
  DecodeState* decode = nullptr;
  // With decode: the sequence (row of the state) that segment i continues.
  std::span<const Index> decode_rows = {};
  bool skip_is_identity = false;
  // Keep only block inputs and run each block again before its backward.
  bool recomputes = false;
  Trace* trace = nullptr;
  // Charged with the time of each layer; null: nobody asks.
  Profile* profile = nullptr;
};

}  // namespace zaya
