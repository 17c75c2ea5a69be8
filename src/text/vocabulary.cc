// SPDX-License-Identifier: Apache-2.0
#include "text/vocabulary.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/hash.h"

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
  bytes_.append(content);
  slot = {static_cast<std::uint32_t>(hash >> 32), id};
  ++size_;
  return Added::yes;
}

std::optional<TokenId> Vocabulary::find(std::string_view content) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[slot_of(content, hash64(content))];
  if (slot.id < 0) return std::nullopt;
  return slot.id;
}

}  // namespace zaya
