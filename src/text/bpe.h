// SPDX-License-Identifier: Apache-2.0
//
// The byte-pair model: turns one part of a text into token ids. Symbols start as characters (or as
// bytes, for a byte-level tokenizer); then always the neighbouring pair with the lowest rank, the
// leftmost among equals, becomes one symbol.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/large_vector.h"
#include "text/vocabulary.h"

namespace zaya {

// Pairs of symbols that may merge: (left, right) -> (rank, product). Open addressing with linear
// probing, at most half full.
class MergeTable {
 public:
  static constexpr std::uint32_t kNoRank = UINT32_MAX;
  struct Merge {
    std::uint32_t rank = kNoRank;
    TokenId product = -1;
  };

  // Room for `num_merges` different pairs.
  explicit MergeTable(std::size_t num_merges = 0);
  // A pair that is there already gets the new rank.
  void set(TokenId left, TokenId right, Merge merge);
  // Rank kNoRank when the pair does not merge.
  Merge find(TokenId left, TokenId right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t i = home(key);; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.key == key) return slot.merge;
      if (slot.key == kEmpty) return {};
    }
  }
  // Calls f(left, right, merge) for every pair.
  template <class F>
  void for_each(F f) const {
    for (const Slot& slot : slots_) {
      if (slot.key != kEmpty) {
        f(static_cast<TokenId>(slot.key >> 32), static_cast<TokenId>(slot.key & UINT32_MAX),
          slot.merge);
      }
    }
  }
  std::size_t size() const { return size_; }
  // As in Vocabulary; whether the ids are tokens is for the caller to check.
  void save(TableWriter& writer) const;
  static MergeTable load(TableReader& reader);

 private:
  static constexpr std::uint64_t kEmpty = UINT64_MAX;
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge;
  };
  static std::uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::size_t home(std::uint64_t key) const { return (key * 0x9E3779B97F4A7C15u) >> shift_; }

  LargeVector<Slot> slots_;
  std::size_t mask_ = 0, size_ = 0;
  int shift_ = 63;
};

struct BpeOptions {
  bool is_byte_level = false;  // parts are raw bytes; the vocabulary has them in byte letters
  bool has_byte_fallback = false;
  bool fuses_unknown = false;
  bool ignores_merges = false;  // a part that is a token is that token
  std::string unknown;          // content of the token for unknown characters; empty: none
};

// Working memory and the cache of short pieces; one per thread and per model.
class BpeScratch {
 public:
  BpeScratch();

 private:
  friend class Bpe;
  // One cache line: pieces of up to 32 bytes with up to 7 ids. A later piece takes the place of an
  // earlier one with the same slot.
  struct alignas(64) CacheEntry {
    std::uint8_t length = 0, num_ids = 0;
    std::array<TokenId, 7> ids;
    std::array<char, 32> bytes;
  };
  struct Links {
    std::uint32_t before, next;
  };

  LargeVector<CacheEntry> cache_;
  LargeVector<TokenId> ids_, products_;
  LargeVector<std::uint32_t> ranks_;
  LargeVector<Links> links_;
  LargeVector<std::uint64_t> heap_;
  std::string letters_;
};

// Immutable after construction; refers to a vocabulary that must outlive it.
class Bpe {
 public:
  // Throws Error{damaged} that begins with `where` when the unknown token is not in the vocabulary.
  Bpe(const Vocabulary& vocabulary, MergeTable merges, BpeOptions options, std::string_view where);

  // The tables as they lie in memory, and back: for the same vocabulary and options.
  void save(TableWriter& writer) const;
  static Bpe load(const Vocabulary& vocabulary, BpeOptions options, std::string_view where,
                  TableReader& reader);

  const BpeOptions& options() const { return options_; }
  std::size_t num_merges() const { return merges_.size(); }
  // Appends the ids of one part (valid UTF-8, below 2^32 bytes). Time is n log n in its length.
  void encode(std::string_view part, BpeScratch& scratch, std::vector<TokenId>& out) const;

 private:
  static constexpr std::size_t kJoinBits = std::size_t{1} << 22;

  // Without merges.
  Bpe(const Vocabulary& vocabulary, BpeOptions options, std::string_view where);
  void find_byte_symbols();
  void find_characters();
  void find_joins();
  bool characters_stand_alone() const;
  std::optional<TokenId> whole_part(std::string_view part, BpeScratch& scratch) const;
  void encode_piece(std::string_view piece, BpeScratch& scratch, std::vector<TokenId>& out) const;
  void append_symbols(std::string_view piece, LargeVector<TokenId>& symbols) const;
  bool append_fallback(std::string_view character, LargeVector<TokenId>& symbols) const;
  std::optional<TokenId> character_symbol(char32_t c, std::string_view bytes) const;
  void merge_short(BpeScratch& scratch) const;
  void merge_long(BpeScratch& scratch) const;

  static std::size_t join_bit(char32_t left, char32_t right) {
    const std::uint64_t key = std::uint64_t{left} << 32 | right;
    return (key * 0x9E3779B97F4A7C15u) >> 42;
  }
  // May a merge reach across this border between two characters? No is sure.
  bool may_join(char32_t left, char32_t right) const {
    const std::size_t bit = join_bit(left, right);
    return (joins_[bit / 64] >> (bit % 64) & 1) != 0;
  }

  const Vocabulary& vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  TokenId unknown_ = -1;
  // Byte-level: the id of each byte's letter. Otherwise: the id of <0xHH>. -1 when not there.
  std::array<TokenId, 256> byte_ids_;
  // Ids of single characters of the first plane (not for byte-level).
  LargeVector<TokenId> character_ids_;
  // A set, by hash, of the pairs of characters that stand side by side in some product. Where two
  // neighbours are not in it no merge can ever reach across, so a long part is cut there into
  // pieces with the same result, which are short and come again. Empty: never cut.
  LargeVector<std::uint64_t> joins_;
};

}  // namespace zaya
