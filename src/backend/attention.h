// SPDX-License-Identifier: Apache-2.0
//
// Causal attention over spans, grouped heads: query head h reads key head h / (H/G).
//
//   p = softmax over the visible keys of q . k / sqrt(C);   out = sum p v
//   lse = log of the sum of exp(scores), kept for backward
// Time and memory follow the spans: no work for pairs that may not see each other, no T x T buffer.
#pragma once

#include <span>

#include "backend/batch.h"
#include "tensor/tensor.h"

namespace zaya {

struct AttentionArgs {
  ConstTensor q;     // [Tq, H, C] compute type
  ConstTensor k, v;  // [Tk, G, C] compute type
  std::span<const AttentionSpan> spans;
  // Keys a query sees at most, itself included; 0 = all earlier ones.
  Index window = 0;
  // [Tk] u8, 1 = nobody sees this key; or no tensor.
  ConstTensor hidden_keys;
};

class AttentionKernels {
 public:
  virtual ~AttentionKernels() = default;

  // out [Tq, H, C] compute type; lse [Tq, H] stream type. A query that sees no key gets zeros and
  // lse 0. Rows outside all spans are zeroed.
  virtual void forward(const AttentionArgs& args, Tensor out, Tensor lse) noexcept = 0;

  // dq [Tq, H, C], dk, dv [Tk, G, C] compute type, overwritten (zero outside all spans). Sums over
  // queries have a fixed order. delta [Tq, H] stream type is scratch.
  virtual void backward(const AttentionArgs& args, ConstTensor out, ConstTensor lse,
                        ConstTensor dout, Tensor delta, Tensor dq, Tensor dk,
                        Tensor dv) noexcept = 0;
};

}  // namespace zaya
