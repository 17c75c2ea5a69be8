// SPDX-License-Identifier: Apache-2.0
//
// Indices of token files. The first two bytes of an input are the size of the .bin file, the rest
// is the .idx file. Any bytes give an index whose sequences lie inside the .bin file, or an Error;
// what was accepted can be walked, and a stretch of its stream is found as a plain walk finds it.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/types.h"
#include "data/token_index.h"
#include "data/token_stream.h"

namespace zaya {
namespace {

void check_sequences(const TokenIndex& index, Index bin_bytes) {
  Index num_tokens = 0;
  for (Index s = 0; s < index.num_sequences(); ++s) {
    const Index length = index.length(s), position = index.position(s);
    ZAYA_CHECK(length >= 0 && position >= 0);
    ZAYA_CHECK(position <= bin_bytes);
    ZAYA_CHECK(length * bytes_per_token(index.type()) <= bin_bytes - position);
    num_tokens += length;
    const Index document = index.document_of(s);
    ZAYA_CHECK(index.document_begin(document) <= s && s < index.document_begin(document + 1));
    if (index.has_modes()) static_cast<void>(index.mode(s));
  }
  ZAYA_CHECK(num_tokens == index.num_tokens());
  ZAYA_CHECK(index.document_begin(0) == 0);
  ZAYA_CHECK(index.document_begin(index.num_documents()) == index.num_sequences());
}

void check_stream(const TokenIndex& index) {
  const TokenStream stream(index);
  std::vector<Piece> pieces;
  const Index begin = stream.num_tokens() / 3, end = stream.num_tokens();
  stream.append_pieces(begin, end, pieces);
  Index count = 0;
  for (const Piece& piece : pieces) {
    ZAYA_CHECK(piece.begin >= 0 && piece.begin < piece.end);
    ZAYA_CHECK(piece.end <= index.length(piece.sequence));
    count += piece.end - piece.begin;
  }
  ZAYA_CHECK(count == end - begin);
}

}  // namespace
}  // namespace zaya

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const zaya::Index bin_bytes = data[0] + 256 * data[1];
  try {
    const zaya::TokenIndex index(std::as_bytes(std::span(data + 2, size - 2)), bin_bytes, "input");
    zaya::check_sequences(index, bin_bytes);
    zaya::check_stream(index);
  } catch (const zaya::Error&) {
    return 0;
  }
  return 0;
}
