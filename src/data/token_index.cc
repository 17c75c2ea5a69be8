// SPDX-License-Identifier: Apache-2.0
#include "data/token_index.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/error.h"

namespace zaya {

namespace {

constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kSequenceBytes = 12, kDocumentBytes = 8;

template <class... Args>
[[noreturn]] void damaged(std::string_view path, fmt::format_string<Args...> format,
                          Args&&... args) {
  throw Error{ErrorKind::damaged,
              fmt::format("{}: {}", path, fmt::format(format, std::forward<Args>(args)...))};
}

template <class T>
void append(std::string& text, T value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

Index bytes_per_token(TokenType type) {
  switch (type) {
    case TokenType::u8:
    case TokenType::i8: return 1;
    case TokenType::i16:
    case TokenType::u16: return 2;
    case TokenType::i32: return 4;
    case TokenType::i64: return 8;
  }
  ZAYA_CHECK(false, "unknown token type");
}

std::string_view name_of(TokenType type) {
  switch (type) {
    case TokenType::u8: return "uint8";
    case TokenType::i8: return "int8";
    case TokenType::i16: return "int16";
    case TokenType::i32: return "int32";
    case TokenType::i64: return "int64";
    case TokenType::u16: return "uint16";
  }
  ZAYA_CHECK(false, "unknown token type");
}

TokenType token_type_for(Index vocabulary_size) {
  return vocabulary_size < 65500 ? TokenType::u16 : TokenType::i32;
}

std::string token_index_header(TokenType type, Index num_sequences, Index num_documents) {
  std::string header(kMagic);
  append(header, kVersion);
  append(header, static_cast<std::uint8_t>(type));
  append(header, static_cast<std::uint64_t>(num_sequences));
  append(header, static_cast<std::uint64_t>(num_documents + 1));
  return header;
}

TokenIndex::TokenIndex(std::span<const std::byte> bytes, Index bin_bytes, std::string_view path) {
  read_header(bytes, path);
  check_sequences(bin_bytes, path);
  check_documents(path);
}

void TokenIndex::read_header(std::span<const std::byte> bytes, std::string_view path) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("TNTIDX")) {
    damaged(path, "is an index of the old fairseq format; make the files anew with zaya prepare");
  }
  if (!text.starts_with(kMagic)) damaged(path, "does not begin with MMIDIDX: not a token index");
  if (bytes.size() < kTokenIndexHeaderBytes) damaged(path, "ends inside its header");
  const auto version = load<std::uint64_t>(bytes.data() + 9, 0);
  if (version != kVersion) damaged(path, "has version {}; known is version 1", version);
  const auto code = load<std::uint8_t>(bytes.data() + 17, 0);
  if (code == 6 || code == 7) damaged(path, "holds real numbers (type code {}), not tokens", code);
  if (code == 0 || code > 8) damaged(path, "has the unknown type code {}", code);
  type_ = static_cast<TokenType>(code);

  // Both counts are bounded by the size of the file before they are multiplied.
  const auto sequences = load<std::uint64_t>(bytes.data() + 18, 0);
  const auto entries = load<std::uint64_t>(bytes.data() + 26, 0);
  const std::uint64_t room = bytes.size() - kTokenIndexHeaderBytes;
  if (sequences > room / kSequenceBytes || entries > room / kDocumentBytes) {
    damaged(path, "is too short for {} sequences and {} document entries", sequences, entries);
  }
  if (entries == 0) damaged(path, "has an empty document index; its first entry must be 0");
  const std::uint64_t wanted = sequences * kSequenceBytes + entries * kDocumentBytes;
  has_modes_ = sequences > 0 && room == wanted + sequences;
  if (room != wanted && !has_modes_) {
    damaged(path, "has {} bytes; {} sequences and {} document entries take {}", bytes.size(),
            sequences, entries, wanted + kTokenIndexHeaderBytes);
  }
  num_sequences_ = static_cast<Index>(sequences);
  num_documents_ = static_cast<Index>(entries) - 1;
  lengths_ = bytes.data() + kTokenIndexHeaderBytes;
  positions_ = lengths_ + sequences * 4;
  documents_ = positions_ + sequences * 8;
  modes_ = documents_ + entries * 8;
}

void TokenIndex::check_sequences(Index bin_bytes, std::string_view path) {
  const Index token_bytes = bytes_per_token(type_);
  for (Index s = 0; s < num_sequences_; ++s) {
    const Index count = length(s), begin = position(s);
    if (count < 0) damaged(path, "sequence {} has length {}", s, count);
    // No overflow: count is below 2^31.
    if (begin < 0 || begin > bin_bytes || count * token_bytes > bin_bytes - begin) {
      damaged(path, "sequence {} ({} tokens at byte {}) ends behind the {} bytes of the .bin file",
              s, count, begin, bin_bytes);
    }
    num_tokens_ += count;
    if (num_tokens_ > std::numeric_limits<Index>::max() / 16) damaged(path, "has too many tokens");
  }
}

void TokenIndex::check_documents(std::string_view path) {
  if (document_begin(0) != 0) damaged(path, "the document index does not begin with 0");
  if (document_begin(num_documents_) != num_sequences_) {
    damaged(path, "the document index ends with {}, not with the number of sequences {}",
            document_begin(num_documents_), num_sequences_);
  }
  for (Index d = 0; d < num_documents_; ++d) {
    const Index begin = document_begin(d), end = document_begin(d + 1);
    if (begin > end || end > num_sequences_) {
      damaged(path, "document {} is the sequences {} to {}: the document index must not fall", d,
              begin, end);
    }
    Index num_tokens = 0;
    for (Index s = begin; s < end; ++s) num_tokens += length(s);
    num_filled_documents_ += num_tokens > 0 ? 1 : 0;
    longest_document_ = std::max(longest_document_, num_tokens);
  }
}

Index TokenIndex::document_of(Index s) const {
  ZAYA_DCHECK(s >= 0 && s < num_sequences_);
  // Invariant: document_begin(low) <= s < document_begin(high).
  Index low = 0, high = num_documents_;
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (document_begin(middle) <= s ? low : high) = middle;
  }
  return low;
}

}  // namespace zaya
