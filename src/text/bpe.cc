// SPDX-License-Identifier: Apache-2.0
#include "text/bpe.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "text/pretokenize.h"
#include "text/table_bytes.h"
#include "text/unicode.h"

namespace zaya {

namespace {

constexpr std::size_t kCacheEntries = 1 << 15;
constexpr std::size_t kLongestCached = 32;
// Up to here looking at all pairs is faster than a heap.
constexpr std::size_t kShortPiece = 64;
constexpr char32_t kTablePlane = 0x10000;
constexpr std::uint32_t kNoLink = UINT32_MAX;

std::string byte_token(unsigned byte) { return fmt::format("<0x{:02X}>", byte); }

}  // namespace

MergeTable::MergeTable(std::size_t num_merges) {
  const std::size_t num_slots = std::bit_ceil(std::max<std::size_t>(2 * num_merges, 16));
  slots_.resize(num_slots);
  mask_ = num_slots - 1;
  shift_ = 64 - std::countr_zero(num_slots);
}

void MergeTable::set(TokenId left, TokenId right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t i = home(key);
  while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask_;
  if (slots_[i].key == kEmpty) {
    ++size_;
    ZAYA_CHECK(2 * size_ <= slots_.size());
  }
  slots_[i] = {key, merge};
}

void MergeTable::save(TableWriter& writer) const { writer.add(slots_); }

MergeTable MergeTable::load(TableReader& reader) {
  MergeTable table;
  table.slots_ = reader.take<Slot>();
  const std::size_t num_slots = table.slots_.size();
  TableReader::require(num_slots >= 2 && std::has_single_bit(num_slots), "an odd table of merges");
  table.mask_ = num_slots - 1;
  table.shift_ = 64 - std::countr_zero(num_slots);
  for (const Slot& slot : table.slots_) table.size_ += slot.key != kEmpty ? 1 : 0;
  TableReader::require(2 * table.size_ <= num_slots, "a table of merges without room");
  return table;
}

BpeScratch::BpeScratch() : cache_(kCacheEntries) {}

Bpe::Bpe(const Vocabulary& vocabulary, BpeOptions options, std::string_view where)
    : vocabulary_(vocabulary), options_(std::move(options)) {
  if (!options_.unknown.empty()) {
    const std::optional<TokenId> unknown = vocabulary.find(options_.unknown);
    if (!unknown) {
      throw Error{ErrorKind::damaged, fmt::format("{}: unk_token {} is not in the vocabulary",
                                                  where, options_.unknown)};
    }
    unknown_ = *unknown;
  }
  find_byte_symbols();
}

Bpe::Bpe(const Vocabulary& vocabulary, MergeTable merges, BpeOptions options,
         std::string_view where)
    : Bpe(vocabulary, std::move(options), where) {
  merges_ = std::move(merges);
  if (options_.is_byte_level) return;
  find_characters();
  find_joins();
}

void Bpe::save(TableWriter& writer) const {
  merges_.save(writer);
  writer.add(character_ids_);
  writer.add(joins_);
}

Bpe Bpe::load(const Vocabulary& vocabulary, BpeOptions options, std::string_view where,
              TableReader& reader) {
  const auto require = TableReader::require;
  Bpe bpe(vocabulary, std::move(options), where);
  bpe.merges_ = MergeTable::load(reader);
  bpe.character_ids_ = reader.take<TokenId>();
  bpe.joins_ = reader.take<std::uint64_t>();
  bpe.merges_.for_each([&](TokenId left, TokenId right, MergeTable::Merge merge) {
    require(vocabulary.has(left) && vocabulary.has(right) && vocabulary.has(merge.product),
            "a merge of what is no token");
  });
  const bool is_byte_level = bpe.options_.is_byte_level;
  require(bpe.character_ids_.size() == (is_byte_level ? 0 : kTablePlane), "odd characters");
  for (const TokenId id : bpe.character_ids_) {
    require(id == -1 || vocabulary.has(id), "a character without a token");
  }
  require(bpe.joins_.empty() || (!is_byte_level && bpe.joins_.size() == kJoinBits / 64),
          "odd borders");
  return bpe;
}

void Bpe::find_characters() {
  character_ids_.assign(kTablePlane, -1);
  for (TokenId id = 0; id < vocabulary_.id_end(); ++id) {
    if (!vocabulary_.has(id)) continue;
    const std::string_view content = vocabulary_.content(id);
    std::size_t length = 0;
    if (content.empty()) continue;
    const char32_t c = next_code_point(content, length);
    if (length == content.size() && c < kTablePlane) character_ids_[c] = id;
  }
}

void Bpe::find_byte_symbols() {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string content = options_.is_byte_level
                                    ? to_utf8(byte_letter(static_cast<unsigned char>(byte)))
                                    : byte_token(byte);
    byte_ids_[byte] = vocabulary_.find(content).value_or(-1);
  }
}

// Does every character give symbols that depend on it alone? Not when unknown ones fuse or vanish,
// or when byte tokens overtake them.
bool Bpe::characters_stand_alone() const {
  const bool has_all_bytes = std::find(byte_ids_.begin(), byte_ids_.end(), -1) == byte_ids_.end();
  if (options_.has_byte_fallback) return has_all_bytes;
  return unknown_ >= 0 && !options_.fuses_unknown;
}

// Symbols that are not written as the characters they stand for (byte tokens, the unknown token)
// could merge across a border unseen; no maker's file has such merges, and then nothing is cut.
void Bpe::find_joins() {
  if (!characters_stand_alone()) return;
  std::vector<bool> is_disguised(static_cast<std::size_t>(vocabulary_.id_end()));
  if (options_.has_byte_fallback) {
    for (const TokenId id : byte_ids_) {
      if (id >= 0) is_disguised[id] = true;
    }
  }
  if (unknown_ >= 0) is_disguised[unknown_] = true;
  LargeVector<std::uint64_t> joins(kJoinBits / 64);
  bool is_safe = true;
  merges_.for_each([&](TokenId left, TokenId right, MergeTable::Merge merge) {
    is_safe = is_safe && !is_disguised[left] && !is_disguised[right];
    const std::string_view content = vocabulary_.content(merge.product);
    std::size_t at = 0;
    char32_t before = next_code_point(content, at);
    while (at < content.size()) {
      const char32_t c = next_code_point(content, at);
      const std::size_t bit = join_bit(before, c);
      joins[bit / 64] |= std::uint64_t{1} << (bit % 64);
      before = c;
    }
  });
  if (is_safe) joins_ = std::move(joins);
}

std::optional<TokenId> Bpe::whole_part(std::string_view part, BpeScratch& scratch) const {
  if (!options_.is_byte_level) return vocabulary_.find(part);
  scratch.letters_.clear();
  append_byte_letters(part, scratch.letters_);
  return vocabulary_.find(scratch.letters_);
}

void Bpe::encode(std::string_view part, BpeScratch& scratch, std::vector<TokenId>& out) const {
  if (joins_.empty() || part.empty()) return encode_piece(part, scratch, out);
  if (options_.ignores_merges) {
    if (const std::optional<TokenId> id = whole_part(part, scratch)) return out.push_back(*id);
  }
  std::size_t begin = 0, at = 0;
  char32_t before = next_code_point(part, at);
  while (at < part.size()) {
    const std::size_t border = at;
    const char32_t c = next_code_point(part, at);
    if (!may_join(before, c)) {
      encode_piece(part.substr(begin, border - begin), scratch, out);
      begin = border;
    }
    before = c;
  }
  encode_piece(part.substr(begin), scratch, out);
}

void Bpe::encode_piece(std::string_view piece, BpeScratch& scratch,
                       std::vector<TokenId>& out) const {
  if (piece.empty()) return;
  BpeScratch::CacheEntry* entry = nullptr;
  if (piece.size() <= kLongestCached) {
    entry = &scratch.cache_[hash64(piece) % kCacheEntries];
    if (entry->length == piece.size() &&
        std::memcmp(entry->bytes.data(), piece.data(), piece.size()) == 0) {
      out.insert(out.end(), entry->ids.begin(), entry->ids.begin() + entry->num_ids);
      return;
    }
  }
  LargeVector<TokenId>& ids = scratch.ids_;
  ids.clear();
  // A cut part was looked up as a whole before.
  std::optional<TokenId> whole;
  if (options_.ignores_merges && joins_.empty()) whole = whole_part(piece, scratch);
  if (whole) {
    ids.push_back(*whole);
  } else {
    append_symbols(piece, ids);
    if (ids.size() <= kShortPiece) {
      merge_short(scratch);
    } else {
      merge_long(scratch);
    }
  }
  out.insert(out.end(), ids.begin(), ids.end());
  if (entry != nullptr && ids.size() <= entry->ids.size()) {
    entry->length = static_cast<std::uint8_t>(piece.size());
    entry->num_ids = static_cast<std::uint8_t>(ids.size());
    std::copy(ids.begin(), ids.end(), entry->ids.begin());
    std::memcpy(entry->bytes.data(), piece.data(), piece.size());
  }
}

std::optional<TokenId> Bpe::character_symbol(char32_t c, std::string_view bytes) const {
  if (c < kTablePlane) {
    if (character_ids_[c] < 0) return std::nullopt;
    return character_ids_[c];
  }
  return vocabulary_.find(bytes);
}

// Appends <0xHH> for each byte if all of them are tokens.
bool Bpe::append_fallback(std::string_view character, LargeVector<TokenId>& symbols) const {
  if (!options_.has_byte_fallback) return false;
  const std::size_t size = symbols.size();
  for (const char byte : character) {
    const auto value = static_cast<unsigned char>(byte);
    const TokenId id = options_.is_byte_level ? vocabulary_.find(byte_token(value)).value_or(-1)
                                              : byte_ids_[value];
    if (id < 0) {
      symbols.resize(size);
      return false;
    }
    symbols.push_back(id);
  }
  return true;
}

// An unknown symbol is held back until a known character (or another unknown one) follows: byte
// tokens overtake it. That is what the library does.
void Bpe::append_symbols(std::string_view piece, LargeVector<TokenId>& symbols) const {
  bool has_unknown = false;
  const auto release = [&] {
    if (has_unknown) symbols.push_back(unknown_);
    has_unknown = false;
  };
  const auto add = [&](std::optional<TokenId> known, std::string_view character) {
    if (known) {
      release();
      symbols.push_back(*known);
    } else if (!append_fallback(character, symbols) && unknown_ >= 0) {
      if (!options_.fuses_unknown) release();
      has_unknown = true;
    }
  };
  if (options_.is_byte_level) {
    for (const char byte : piece) {
      const auto value = static_cast<unsigned char>(byte);
      const TokenId id = byte_ids_[value];
      if (id >= 0 && !has_unknown) {
        symbols.push_back(id);
      } else {
        add(id >= 0 ? std::optional(id) : std::nullopt, to_utf8(byte_letter(value)));
      }
    }
  } else {
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t begin = at;
      const char32_t c = next_code_point(piece, at);
      const std::string_view bytes = piece.substr(begin, at - begin);
      add(character_symbol(c, bytes), bytes);
    }
  }
  release();
}

// Entry i of ranks and products belongs to the pair (i, i + 1).
void Bpe::merge_short(BpeScratch& scratch) const {
  LargeVector<TokenId>& ids = scratch.ids_;
  std::size_t count = ids.size();
  if (count < 2) return;
  std::array<std::uint32_t, kShortPiece> ranks;
  std::array<TokenId, kShortPiece> products;
  const auto look_up = [&](std::size_t i) {
    const MergeTable::Merge merge = merges_.find(ids[i], ids[i + 1]);
    ranks[i] = merge.rank;
    products[i] = merge.product;
  };
  for (std::size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == MergeTable::kNoRank) break;
    ids[best] = products[best];
    const std::size_t num_after = count - best - 2;
    std::memmove(&ids[best] + 1, &ids[best] + 2, num_after * sizeof(TokenId));
    --count;
    if (num_after > 0) {
      std::memmove(&ranks[best], &ranks[best + 1], num_after * sizeof(ranks[0]));
      std::memmove(&products[best], &products[best + 1], num_after * sizeof(products[0]));
      look_up(best);
    }
    if (best > 0) look_up(best - 1);
  }
  ids.resize(count);
}

// A linked list of symbols and a heap of (rank, position). A heap entry counts only while its rank
// is still the one noted for the pair at its position.
void Bpe::merge_long(BpeScratch& scratch) const {
  LargeVector<TokenId>&ids = scratch.ids_, &products = scratch.products_;
  LargeVector<std::uint32_t>& ranks = scratch.ranks_;
  LargeVector<BpeScratch::Links>& links = scratch.links_;
  LargeVector<std::uint64_t>& heap = scratch.heap_;
  const auto count = static_cast<std::uint32_t>(ids.size());
  products.resize(count);
  ranks.assign(count, MergeTable::kNoRank);
  links.resize(count);
  heap.clear();
  const auto entry_for = [&](std::uint32_t i) -> std::optional<std::uint64_t> {
    const std::uint32_t next = links[i].next;
    const MergeTable::Merge merge =
        next == kNoLink ? MergeTable::Merge{} : merges_.find(ids[i], ids[next]);
    ranks[i] = merge.rank;
    products[i] = merge.product;
    if (merge.rank == MergeTable::kNoRank) return std::nullopt;
    return std::uint64_t{merge.rank} << 32 | i;
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    links[i] = {i == 0 ? kNoLink : i - 1, i + 1 < count ? i + 1 : kNoLink};
    if (const auto entry = entry_for(i)) heap.push_back(*entry);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto push = [&](std::uint32_t i) {
    if (const auto entry = entry_for(i)) {
      heap.push_back(*entry);
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const std::uint64_t entry = heap.back();
    heap.pop_back();
    const auto i = static_cast<std::uint32_t>(entry & UINT32_MAX);
    if (ranks[i] != entry >> 32) continue;
    const std::uint32_t gone = links[i].next, next = links[gone].next;
    ids[i] = products[i];
    ids[gone] = -1;
    ranks[gone] = MergeTable::kNoRank;
    links[i].next = next;
    if (next != kNoLink) links[next].before = i;
    push(i);
    if (links[i].before != kNoLink) push(links[i].before);
  }
  ids.erase(std::remove(ids.begin(), ids.end(), -1), ids.end());
}

}  // namespace zaya
