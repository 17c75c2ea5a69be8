// SPDX-License-Identifier: Apache-2.0
#include "data/token_stream.h"

#include <algorithm>

#include "base/check.h"

namespace zaya {

namespace {

constexpr Index kBlock = 256;

}  // namespace

TokenStream::TokenStream(const TokenIndex& index) : index_(index) {
  block_begin_.reserve(static_cast<std::size_t>(index.num_sequences() / kBlock + 1));
  Index num_tokens = 0;
  for (Index s = 0; s < index.num_sequences(); ++s) {
    if (s % kBlock == 0) block_begin_.push_back(num_tokens);
    num_tokens += index.length(s);
  }
}

void TokenStream::append_pieces(Index begin, Index end, std::vector<Piece>& pieces) const {
  ZAYA_CHECK(begin >= 0 && begin <= end && end <= num_tokens());
  if (begin == end) return;
  const auto after = std::upper_bound(block_begin_.begin(), block_begin_.end(), begin);
  Index s = (after - block_begin_.begin() - 1) * kBlock;
  Index at = *(after - 1);  // tokens before sequence s
  for (; at + index_.length(s) <= begin; ++s) at += index_.length(s);
  for (; at < end; ++s) {
    const Index length = index_.length(s);
    const Index first = std::max<Index>(begin - at, 0), last = std::min(end - at, length);
    if (last > first) pieces.push_back({s, first, last});
    at += length;
  }
}

}  // namespace zaya
