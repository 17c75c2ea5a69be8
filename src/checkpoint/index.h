// SPDX-License-Identifier: Apache-2.0
//
// index.json of a checkpoint folder: which tensors there are, where their bytes lie, what they must
// hash to, and the run state. docs/formats.md has the table of its members.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/json.h"
#include "base/types.h"
#include "checkpoint/safetensors.h"

namespace zaya {

inline constexpr Index kCheckpointVersion = 1;
inline constexpr std::string_view kIndexName = "index.json";
// Member of the run state that never enters digests and comparisons: times, paths, threads,
// instruction set, stop point.
inline constexpr std::string_view kVolatileKey = "volatile";

// Entries [offset, offset + extent) of a tensor's first dim, stored under the tensor's name in one
// file. A tensor of rank 0 has one slice with offset 0 and extent 1.
struct IndexSlice {
  std::size_t file = 0;  // position in CheckpointIndex::files
  Index offset = 0, extent = 0;
  std::string checksum;  // checksum_text of the slice's bytes
};

struct IndexTensor {
  TensorSpec spec;                 // the whole tensor
  std::vector<IndexSlice> slices;  // ascending, covering the first dim exactly
};

struct IndexFile {
  std::string name;
  Index num_bytes = 0;
  std::string head_checksum;  // of the bytes before the data
};

struct CheckpointIndex {
  Index step = 0;
  Index num_writers = 1;
  std::vector<IndexFile> files;
  std::vector<IndexTensor> tensors;  // names ascending
  Json run_state;                    // an object

  // Null when there is no tensor of that name.
  const IndexTensor* find(std::string_view name) const;
};

// "xxh3-128:<32 hexadecimal digits>".
std::string checksum_text(Hash128 hash);

// Shape of a slice: the tensor's, with the first dim cut to the extent.
std::vector<std::uint64_t> slice_shape(const TensorSpec& spec, const IndexSlice& slice);

// The file's text. Its last member is the checksum of all bytes before it.
std::string index_text(const CheckpointIndex& index);
// Reads and checks that text. Error{damaged} begins with `where`.
CheckpointIndex parse_index(std::string_view text, const std::string& where);

// "step-00000120", and back; none for a name of another form.
std::string step_name(Index step);
std::optional<Index> step_of_name(std::string_view name);
// "rank-00000.safetensors".
std::string writer_file_name(Index writer);

}  // namespace zaya
