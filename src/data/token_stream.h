// SPDX-License-Identifier: Apache-2.0
//
// The tokens of a shard as one stream: its sequences in the order of the index. Finds the sequences
// of a stretch of the stream with one entry of memory per 256 sequences.
#pragma once

#include <vector>

#include "base/types.h"
#include "data/token_index.h"

namespace zaya {

// Tokens [begin, end) of one sequence.
struct Piece {
  Index sequence = 0, begin = 0, end = 0;
  bool operator==(const Piece&) const = default;
};

class TokenStream {
 public:
  // Keeps a reference to `index`.
  explicit TokenStream(const TokenIndex& index);

  Index num_tokens() const { return index_.num_tokens(); }
  // Appends the pieces of the tokens [begin, end) of the stream; none is empty.
  void append_pieces(Index begin, Index end, std::vector<Piece>& pieces) const;

 private:
  const TokenIndex& index_;
  std::vector<Index> block_begin_;  // tokens before each block of sequences
};

}  // namespace zaya
