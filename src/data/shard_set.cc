// SPDX-License-Identifier: Apache-2.0
#include "data/shard_set.h"

namespace zaya {

ShardSet::ShardSet(const std::vector<std::string>& prefixes, Index model_vocabulary,
                   const std::string& tokenizer_digest) {
  std::string expected = tokenizer_digest;
  for (const std::string& prefix : prefixes) {
    const Shard& shard = shards_.emplace_back(prefix);
    check_usable(shard, model_vocabulary, expected);
    if (expected.empty() && shard.info()) expected = shard.info()->tokenizer_digest;
    pointers_.push_back(&shard);
  }
}

}  // namespace zaya
