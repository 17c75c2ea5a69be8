// SPDX-License-Identifier: Apache-2.0
//
// How far a run of prepare() is, in a file beside its outputs that is replaced atomically. What it
// says is on the device: the partial files are flushed before.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/chunk_reader.h"
#include "data/shard_writer.h"

namespace zaya {

struct PrepareJournal {
  std::string arguments_digest;  // of what decides the bytes of the outputs
  std::string inputs_digest;     // of the inputs' sizes and times
  ReadPosition read;
  ReadReport report;
  Index repeated_documents = 0, repeated_paragraphs = 0;
  std::vector<ShardPosition> shards;                    // per output
  std::vector<std::vector<ShardInfo::Source>> sources;  // per output: of the files read so far
  bool is_publishing = false;  // all outputs are written under temporary names

  // Atomically, under the fault name "journal".
  void save(const std::string& path) const;
};

// The journal at `path`; none when there is none or it can't be read (said in the log).
std::optional<PrepareJournal> load_journal(const std::string& path);

}  // namespace zaya
