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
  // The same piece by piece, for sequences that need not fit into memory.
  void append(std::span<const std::int32_t> tokens);
  void end_sequence();
  // Ends the current document, which may have no sequence.
  void end_document();

  const ShardPosition& position() const { return position_; }
  const std::string& prefix() const { return prefix_; }
  // Everything so far is on the device.
  void sync();
  // Writes the index and the side file under temporary names; counts, the largest id and the
  // checksum, which comes from reading the tokens back, are filled in in `info`. publish_shard()
  // gives all their names. Nothing may be added after this.
  void finish(ShardInfo info);

 private:
  void write_index();

  std::string prefix_;
  TokenType type_;
  ShardPosition position_;
  Index open_tokens_ = 0;  // of the sequence that is not ended
  std::optional<FileWriter> bin_, lengths_, documents_;
  std::vector<std::byte> packed_;  // one sequence in the stored type
};

// The checksum of a file for ShardInfo::bin_checksum, read from the device in bounded memory.
std::string checksum_of_file(const std::string& path);

// Error{usage} when a file of `prefix` is one of the files `inputs`, however spelled: it would be
// overwritten.
void refuse_input_as_output(const std::vector<std::string>& inputs, const std::string& prefix);
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
