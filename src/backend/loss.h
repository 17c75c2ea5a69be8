// SPDX-License-Identifier: Apache-2.0
//
// Output head and cross-entropy in one, chunked over tokens: the logits of all tokens never exist
// together.
//
//   logits = x w^T + bias;   loss = -sum over t with a target of log softmax(logits[t])[target[t]]
//   dlogits = scale * (softmax - one_hot)
#pragma once

#include "tensor/tensor.h"

namespace zaya {

struct LossArgs {
  ConstTensor x;        // [T, D] compute type
  ConstTensor w;        // [V, D] compute type
  ConstTensor bias;     // [V] stream type, or no tensor
  ConstTensor targets;  // [T] i32, -1 = none
  Tensor scratch;       // [chunk, V] stream type: chunk = loss_chunk_rows(T, V)
};

struct LossGradients {
  double scale = 1;  // factor of every gradient, usually 1 / targets of the whole step
  Tensor dx;         // [T, D] compute type, overwritten
  Tensor dw;         // [V, D] stream type, added to
  Tensor dbias;      // [V] stream type, added to; or no tensor
};

// Rows of logits held at a time, a multiple of 16: about 64 MiB of f32. Each chunk reads and writes
// the whole weight gradient, so that large vocabularies get up to 192 rows within 192 MiB.
inline Index loss_chunk_rows(Index num_tokens, Index vocabulary) {
  const Index width = vocabulary > 0 ? vocabulary : 1;
  const Index usual = (Index{16} << 20) / width, most = (Index{48} << 20) / width;
  const Index wanted = usual >= 192 ? usual : most < 192 ? most : 192;
  const Index rows = wanted < 16 ? 16 : wanted / 16 * 16;
  return rows < num_tokens ? rows : num_tokens;
}

class LossKernels {
 public:
  virtual ~LossKernels() = default;

  // Returns the loss summed over tokens with a target, in double, in token order. logprobs [T]
  // stream type gets log p(target) (0 where there is none), unless it is no tensor. `d` null: no
  // gradients.
  virtual double cross_entropy(const LossArgs& args, const LossGradients* d,
                               Tensor logprobs) noexcept = 0;
};

}  // namespace zaya
