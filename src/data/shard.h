// SPDX-License-Identifier: Apache-2.0
//
// A token file: PREFIX.bin (token values, one after the other), PREFIX.idx (token_index.h) and,
// when it was made here, the side file PREFIX.json that says where the tokens come from. Read
// through memory maps; nothing is allocated by size of the data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/types.h"
#include "data/token_index.h"

namespace zaya {

// The side file. The format of .bin and .idx does not need it.
struct ShardInfo {
  struct Source {
    std::string path;
    Index bytes = 0, documents = 0, tokens = 0;
    bool operator==(const Source&) const = default;
  };

  std::string tokenizer_digest;  // digest_text(tokenizer.digest()), "" when unknown
  Index vocabulary_size = 0;     // 0 when unknown
  Index eod_id = -1;             // -1 when there is none
  bool appends_eod = false;      // each document with tokens ends with eod_id
  Index bos_id = -1;             // each document with tokens begins with it; -1: nothing
  Index largest_id = -1;         // of all tokens; -1 without tokens or when unknown
  Index documents = 0, sequences = 0, tokens = 0;
  std::string arguments_digest;  // of what the tokens were made with, "" for joined files
  std::string bin_checksum;      // digest_text of all bytes of the .bin file, "" when unknown
  std::vector<Source> sources;

  Json to_json() const;
  // Error{damaged} naming `path` for a missing or wrong member.
  static ShardInfo from_json(const Json& json, const std::string& path);
  bool operator==(const ShardInfo&) const = default;
};

// "xxh3-128:HEX", how digests are written in side files and configurations.
std::string digest_text(const Hash128& digest);

std::string bin_path(const std::string& prefix);
std::string idx_path(const std::string& prefix);
std::string info_path(const std::string& prefix);

// The side file of a prefix; none when there is none, or only a file of that name that does not
// claim to be one. Error{damaged} for one that can't be read.
std::optional<ShardInfo> read_shard_info(const std::string& prefix);

class Shard {
 public:
  // Opens and checks. Error{usage} when neither file is there, Error{damaged} when one is missing
  // or they do not fit together.
  explicit Shard(const std::string& prefix);

  const std::string& prefix() const { return prefix_; }
  const TokenIndex& index() const { return *index_; }
  Index bin_bytes() const { return static_cast<Index>(bin_.bytes().size()); }
  const MappedFile& bin() const { return bin_; }
  const MappedFile& idx() const { return idx_; }
  // The side file, when there is one.
  const std::optional<ShardInfo>& info() const { return info_; }

  // Tokens [begin, end) of sequence s. The i32 form must only be used after largest_id() has shown
  // that the values fit.
  void read(Index s, Index begin, Index end, std::int32_t* out) const;
  void read(Index s, Index begin, Index end, std::int64_t* out) const;
  // Tells the kernel that the bytes [begin, end) of the .bin file will be read soon.
  void will_need(Index begin, Index end) const {
    bin_.will_need(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  }

 private:
  std::string prefix_;
  MappedFile bin_, idx_;
  std::optional<TokenIndex> index_;  // reads idx_
  std::optional<ShardInfo> info_;
};

// Least and largest token value.
struct TokenRange {
  std::int64_t least = 0, largest = -1;
  bool is_exact = true;  // all tokens were looked at
};

// Looks at all tokens, or, when there are more than `max_tokens`, at as many spread evenly.
TokenRange scan_tokens(const Shard& shard, Index max_tokens);

// What `zaya dataset verify` does: every token is looked at. Error{damaged} for a negative id, an
// id at or above the side file's vocabulary, counts or a checksum that differ from the side file's.
void verify_shard(const Shard& shard);

// Checks before training: ids fit the model's vocabulary (all of them for small files and those
// with a side file, else a sample), and were made by the tokenizer of that digest ("" skips this).
// Error{usage}.
void check_usable(const Shard& shard, Index model_vocabulary, const std::string& tokenizer_digest);

}  // namespace zaya
