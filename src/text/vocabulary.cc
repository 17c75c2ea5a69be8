// SPDX-License-Identifier: Apache-2.0
#include "text/vocabulary.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/hash.h"
#include "text/table_bytes.h"
#include "text/unicode.h"

namespace zaya {

// The slot that holds `content`, or the empty one where it would go. Slots are a power of two, at
// most half of them in use.
std::size_t Vocabulary::slot_of(std::string_view content, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.id < 0 || (slot.hash == tag && this->content(slot.id) == content)) return i;
  }
}

void Vocabulary::rehash(std::size_t num_slots) {
  slots_.assign(num_slots, Slot{});
  for (TokenId id = 0; id < id_end(); ++id) {
    if (!has(id)) continue;
    const std::uint64_t hash = hash64(content(id));
    slots_[slot_of(content(id), hash)] = {static_cast<std::uint32_t>(hash >> 32), id};
  }
}

void Vocabulary::reserve(std::size_t num_tokens, std::size_t num_bytes) {
  bytes_.reserve(num_bytes);
  spans_.reserve(num_tokens);
  const std::size_t num_slots = std::bit_ceil(std::max<std::size_t>(2 * num_tokens, 16));
  if (num_slots > slots_.size()) rehash(num_slots);
}

Vocabulary::Added Vocabulary::add(std::string_view content, TokenId id) {
  ZAYA_CHECK(id >= 0 && id < kIdLimit && bytes_.size() + content.size() < kAbsent);
  if (2 * static_cast<std::size_t>(size_ + 1) > slots_.size()) {
    rehash(std::max<std::size_t>(2 * slots_.size(), 16));
  }
  const std::uint64_t hash = hash64(content);
  Slot& slot = slots_[slot_of(content, hash)];
  if (slot.id >= 0) return Added::same_content;
  if (has(id)) return Added::same_id;
  if (static_cast<std::size_t>(id) >= spans_.size())
    spans_.resize(static_cast<std::size_t>(id) + 1);
  spans_[id] = {static_cast<std::uint32_t>(bytes_.size()),
                static_cast<std::uint32_t>(content.size())};
  bytes_.insert(bytes_.end(), content.begin(), content.end());
  slot = {static_cast<std::uint32_t>(hash >> 32), id};
  ++size_;
  return Added::yes;
}

void Vocabulary::save(TableWriter& writer) const {
  writer.add(bytes_);
  writer.add(spans_);
  writer.add(slots_);
}

Vocabulary Vocabulary::load(TableReader& reader) {
  const auto require = TableReader::require;
  Vocabulary v;
  v.bytes_ = reader.take<char>();
  v.spans_ = reader.take<Span>();
  v.slots_ = reader.take<Slot>();
  require(v.bytes_.size() < kAbsent && is_valid_utf8({v.bytes_.data(), v.bytes_.size()}),
          "the contents are not UTF-8");
  require(v.spans_.size() <= static_cast<std::size_t>(kIdLimit), "an id out of range");
  // Contents that begin and end between characters of valid text are valid themselves.
  const auto is_border = [&](std::size_t at) {
    return at == v.bytes_.size() || (static_cast<unsigned char>(v.bytes_[at]) & 0xC0) != 0x80;
  };
  for (const Span& span : v.spans_) {
    if (span.begin == kAbsent) continue;
    const std::size_t end = std::size_t{span.begin} + span.length;
    require(end <= v.bytes_.size() && is_border(span.begin) && is_border(end),
            "a content lies outside");
    ++v.size_;
  }
  require(v.spans_.empty() || v.spans_.back().begin != kAbsent, "the last id has no content");
  Index num_used = 0;
  for (const Slot& slot : v.slots_) {
    require(slot.id < 0 || v.has(slot.id), "a slot without a token");
    num_used += slot.id >= 0 ? 1 : 0;
  }
  require(num_used == v.size_ && 2 * static_cast<std::size_t>(v.size_) <= v.slots_.size() &&
              (v.slots_.empty() || std::has_single_bit(v.slots_.size())),
          "the slots do not fit the tokens");
  return v;
}

std::optional<TokenId> Vocabulary::find(std::string_view content) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[slot_of(content, hash64(content))];
  if (slot.id < 0) return std::nullopt;
  return slot.id;
}

}  // namespace zaya
