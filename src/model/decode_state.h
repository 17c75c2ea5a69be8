// SPDX-License-Identifier: Apache-2.0
//
// What incremental generation keeps per sequence and block: keys (after norm, temperature and
// rotary embedding), values, the last columns before the convolutions, the delayed value of the
// last token. Nothing is kept for the router: its depth average runs inside one token.
#pragma once

#include <vector>

#include "model/config.h"
#include "tensor/arena.h"

namespace zaya {

class DecodeState {
 public:
  struct Block {
    Tensor keys, values;  // [rows * capacity, G, C] compute type
    Tensor columns;       // [rows, k0 + k1 - 2, W] compute type; no tensor when k0 = k1 = 1
    Tensor delayed;       // [rows, U] compute type
  };

  // Room for `rows` sequences of at most `capacity` tokens, taken from `arena`.
  DecodeState(Arena& arena, const ModelConfig& config, DType compute, Index rows, Index capacity);

  Index rows() const { return static_cast<Index>(lengths_.size()); }
  Index capacity() const { return capacity_; }
  const Block& block(Index i) const { return blocks_[i]; }
  // Tokens of sequence `row` that every block holds. Layers write behind them; the caller advances.
  Index length(Index row) const { return lengths_[row]; }
  void advance(Index row, Index num_tokens) { lengths_[row] += num_tokens; }
  // Forgets sequence `row`.
  void reset(Index row);

 private:
  Index capacity_;
  std::vector<Block> blocks_;
  std::vector<Index> lengths_;
};

}  // namespace zaya
