// SPDX-License-Identifier: Apache-2.0
//
// A two-way table of token contents and ids. Ids may have gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/large_vector.h"
#include "base/types.h"

namespace zaya {

class TableReader;
class TableWriter;

using TokenId = std::int32_t;

class Vocabulary {
 public:
  // Ids from here on are refused by readers: tables are indexed by id.
  static constexpr TokenId kIdLimit = 1 << 22;

  enum class Added { yes, same_content, same_id };

  // `id` must be in [0, kIdLimit). Changes nothing unless the answer is yes.
  Added add(std::string_view content, TokenId id);
  // Makes room for so many tokens.
  void reserve(std::size_t num_tokens, std::size_t num_bytes);

  std::optional<TokenId> find(std::string_view content) const;
  bool has(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < spans_.size() && spans_[id].begin != kAbsent;
  }
  // The token must be there. Valid until the next add().
  std::string_view content(TokenId id) const {
    return {bytes_.data() + spans_[id].begin, spans_[id].length};
  }
  Index size() const { return size_; }
  // The tables as they lie in memory, and back; load() checks all that the functions above rely on
  // and throws Error{damaged}.
  void save(TableWriter& writer) const;
  static Vocabulary load(TableReader& reader);
  // Largest id + 1; 0 when empty.
  TokenId id_end() const { return static_cast<TokenId>(spans_.size()); }

 private:
  static constexpr std::uint32_t kAbsent = UINT32_MAX;
  struct Span {
    std::uint32_t begin = kAbsent, length = 0;
  };
  // Upper half of a hash, and the id; an empty slot has id -1.
  struct Slot {
    std::uint32_t hash = 0;
    TokenId id = -1;
  };

  std::size_t slot_of(std::string_view content, std::uint64_t hash) const;
  void rehash(std::size_t num_slots);

  LargeVector<char> bytes_;
  LargeVector<Span> spans_;
  LargeVector<Slot> slots_;
  Index size_ = 0;
};

}  // namespace zaya
