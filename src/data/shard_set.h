// SPDX-License-Identifier: Apache-2.0
//
// The token files of a run or an evaluation: opened, and checked against model and tokenizer.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "data/shard.h"

namespace zaya {

class ShardSet {
 public:
  // As Shard and check_usable; with `tokenizer_digest` "" the files must agree on the tokenizer.
  ShardSet(const std::vector<std::string>& prefixes, Index model_vocabulary,
           const std::string& tokenizer_digest);
  ShardSet(const ShardSet&) = delete;
  ShardSet& operator=(const ShardSet&) = delete;

  // In the order of the prefixes; they belong to this object.
  const std::vector<const Shard*>& all() const { return pointers_; }

 private:
  std::deque<Shard> shards_;
  std::vector<const Shard*> pointers_;
};

}  // namespace zaya
