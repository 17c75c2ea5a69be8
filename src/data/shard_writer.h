// SPDX-License-Identifier: Apache-2.0
//
// Writes token files byte for byte as Megatron's own writer does, in bounded memory, under
// temporary names. A writer can go on where a journal says that an earlier one was.
//
//   PREFIX.bin.partial         the tokens
//   PREFIX.lengths.partial     i32 per sequence   \  joined to PREFIX.idx.partial at the end
//   PREFIX.documents.partial   i64 per document   /
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/shard.h"

namespace zaya {

// How far a writer is; what a journal keeps.
struct ShardPosition {
  Index documents = 0, sequences = 0, tokens = 0;
  Index largest_id = -1;
};

class ShardWriter {
 public:
  // Begins a new file, or goes on at `position`: the partial files are cut back to it.
  // Error{damaged} when they are shorter.
  ShardWriter(std::string prefix, TokenType type, const ShardPosition& position = {});

  // One sequence of the current document. Values must fit the type.
  void add_sequence(std::span<const std::int32_t> tokens);
  // Ends the current document, which may have no sequence.
  void end_document();

  const ShardPosition& position() const { return position_; }
  const std::string& prefix() const { return prefix_; }
  // Everything so far is on the device.
  void sync();
  // Writes the index and the side file under temporary names; counts and the largest id in `info`
  // are filled in. publish_shard() gives all their names. Nothing may be added after this.
  void finish(ShardInfo info);

 private:
  void write_index();

  std::string prefix_;
  TokenType type_;
  ShardPosition position_;
  std::optional<FileWriter> bin_, lengths_, documents_;
  std::vector<std::byte> packed_;  // one sequence in the stored type
};

// Error{usage} when PREFIX.json is there and is somebody else's: it would be overwritten.
void refuse_foreign_side_file(const std::string& prefix);
// Is there a token file of this prefix, whole or in part? Refuses a foreign side file.
bool is_output_taken(const std::string& prefix);

// Gives the files that finish() wrote their names: an old index goes first and the new one comes
// last, so that a token file with an index is whole. May be repeated after a crash. Removes the
// temporary files.
void publish_shard(const std::string& prefix);
// Removes what an unfinished writer left.
void remove_partial_shard(const std::string& prefix);

}  // namespace zaya
