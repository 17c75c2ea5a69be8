// SPDX-License-Identifier: Apache-2.0
//
// The index of a token file (Megatron's MMIDIDX format), read in place. Little-endian, unaligned:
//
//   offset        size     content
//   0             9        "MMIDIDX" and two NUL
//   9             8        u64 version = 1
//   17            1        u8 type: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 6 f64, 7 f32, 8 u16
//   18            8        u64 S, number of sequences
//   26            8        u64 D, entries of the document index = documents + 1
//   34            4 S      i32 length of each sequence in tokens
//   34+4S         8 S      i64 byte position of each sequence in the .bin file
//   34+12S        8 D      i64 first sequence of document k; first entry 0, last entry S
//   34+12S+8D     S or 0   i8 mode of each sequence; only the size of the file says whether
//
// Document k holds the sequences [document_begin(k), document_begin(k+1)); it may hold none.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/types.h"

namespace zaya {

static_assert(std::endian::native == std::endian::little, "the formats are read in place");

// The integer types of the format with their codes; float types are refused for tokens.
enum class TokenType : std::uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };

Index bytes_per_token(TokenType type);
// "uint16": numpy's name.
std::string_view name_of(TokenType type);
// What a writer takes: u16 for a vocabulary below 65500, else i32.
TokenType token_type_for(Index vocabulary_size);

inline constexpr std::size_t kTokenIndexHeaderBytes = 34;
// The first 34 bytes of an index.
std::string token_index_header(TokenType type, Index num_sequences, Index num_documents);

class TokenIndex {
 public:
  // Checks all of `bytes`, the whole index file, which the caller keeps alive. `bin_bytes`: size
  // of the .bin file; `path` begins the message of Error{damaged}. Allocates nothing.
  TokenIndex(std::span<const std::byte> bytes, Index bin_bytes, std::string_view path);

  TokenType type() const { return type_; }
  Index num_sequences() const { return num_sequences_; }
  Index num_documents() const { return num_documents_; }
  Index num_tokens() const { return num_tokens_; }
  // Documents with at least one token.
  Index num_filled_documents() const { return num_filled_documents_; }
  Index longest_document() const { return longest_document_; }
  bool has_modes() const { return has_modes_; }

  // Tokens of sequence s, and where they begin in the .bin file in bytes.
  Index length(Index s) const { return load<std::int32_t>(lengths_, s); }
  Index position(Index s) const { return load<std::int64_t>(positions_, s); }
  // First sequence of document d; d = num_documents() gives num_sequences().
  Index document_begin(Index d) const { return load<std::int64_t>(documents_, d); }
  int mode(Index s) const { return load<std::int8_t>(modes_, s); }
  // The document that holds sequence s.
  Index document_of(Index s) const;

 private:
  template <class T>
  static T load(const std::byte* array, Index i) {
    T value;
    std::memcpy(&value, array + i * static_cast<Index>(sizeof(T)), sizeof(T));
    return value;
  }
  void read_header(std::span<const std::byte> bytes, std::string_view path);
  void check_sequences(Index bin_bytes, std::string_view path);
  void check_documents(std::string_view path);

  TokenType type_ = TokenType::i32;
  Index num_sequences_ = 0, num_documents_ = 0, num_tokens_ = 0;
  Index num_filled_documents_ = 0, longest_document_ = 0;
  bool has_modes_ = false;
  const std::byte *lengths_ = nullptr, *positions_ = nullptr, *documents_ = nullptr,
                  *modes_ = nullptr;
};

}  // namespace zaya
