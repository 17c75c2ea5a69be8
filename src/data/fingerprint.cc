// SPDX-License-Identifier: Apache-2.0
#include "data/fingerprint.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"

namespace zaya {

namespace {

constexpr std::size_t kBlockBytes = 4096;
constexpr std::size_t kNumBlocks = 64;

void add_number(Hasher& hasher, Index number) { hasher.add(&number, sizeof number); }

void add_blocks(Hasher& hasher, std::span<const std::byte> bytes) {
  if (bytes.size() <= kBlockBytes * kNumBlocks) return hasher.add(bytes.data(), bytes.size());
  const std::size_t step = (bytes.size() - kBlockBytes) / (kNumBlocks - 1);
  for (std::size_t i = 0; i < kNumBlocks; ++i) hasher.add(bytes.data() + i * step, kBlockBytes);
}

}  // namespace

std::string data_fingerprint(const std::vector<const Shard*>& shards) {
  Hasher hasher;
  add_number(hasher, static_cast<Index>(shards.size()));
  for (const Shard* shard : shards) {
    add_number(hasher, static_cast<Index>(shard->idx().bytes().size()));
    hasher.add(shard->idx().bytes().data(), shard->idx().bytes().size());
    add_number(hasher, shard->bin_bytes());
    add_blocks(hasher, shard->bin().bytes());
    const std::string digest = shard->info() ? shard->info()->tokenizer_digest : "";
    add_number(hasher, static_cast<Index>(digest.size()));
    hasher.add(digest);
  }
  return digest_text(hasher.finish());
}

void check_data_unchanged(const std::string& saved, const std::vector<const Shard*>& shards) {
  const std::string found = data_fingerprint(shards);
  if (found == saved) return;
  Index num_tokens = 0;
  for (const Shard* shard : shards) num_tokens += shard->index().num_tokens();
  throw Error{ErrorKind::usage,
              fmt::format("data.train ({} token files, {} tokens) is not the data this run was "
                          "trained on ({}, not {}), so its position means nothing; put the old "
                          "files back, or start a new run in another run.directory",
                          shards.size(), num_tokens, found, saved)};
}

}  // namespace zaya
