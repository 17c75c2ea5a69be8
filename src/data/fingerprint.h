// SPDX-License-Identifier: Apache-2.0
//
// A digest of the training data, kept in checkpoints: a sample number means the same tokens only as
// long as it is unchanged.
#pragma once

#include <string>
#include <vector>

#include "data/shard.h"

namespace zaya {

// "xxh3-128:HEX" over the shards in order: the whole index, the size and 64 evenly spread blocks of
// the tokens, the tokenizer's digest. Paths do not enter.
std::string data_fingerprint(const std::vector<const Shard*>& shards);

// Error{usage} with the choices when a run that was saved with `saved` would continue on other
// data.
void check_data_unchanged(const std::string& saved, const std::vector<const Shard*>& shards);

}  // namespace zaya
