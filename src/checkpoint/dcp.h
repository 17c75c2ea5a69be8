// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of torch.distributed.checkpoint (DCP), for import:
//
//   .metadata              a pickle: tensors with their chunks, other values, where each item lies;
//                          written last, so that a folder with it is complete
//   __RANK_N.distcp        items one after the other, each an archive of torch.save
//
// Megatron-LM's torch_dist folders are of this kind. Nothing of a pickle is executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace zaya {

// An item: a stretch of a file of the folder.
struct DcpItem {
  std::string file;
  std::uint64_t offset = 0, length = 0;
};

// A box of a tensor: from `offsets` on, `sizes` long.
struct DcpChunk {
  std::vector<std::uint64_t> offsets, sizes;
  DcpItem item;
};

struct DcpTensor {
  TensorSpec spec;
  std::vector<DcpChunk> chunks;  // tile the tensor
};

struct DcpObject {
  std::string name;
  DcpItem item;
};

struct DcpMetadata {
  std::vector<DcpTensor> tensors;  // names ascending
  std::vector<DcpObject> objects;  // names ascending
};

// Reads .metadata. Error{damaged} beginning with `where`: classes that are not known, a tensor
// whose chunks leave gaps, overlap or leave the tensor, items without a place, file names that
// leave the folder.
DcpMetadata parse_dcp_metadata(std::span<const std::byte> bytes, const std::string& where);

class DcpFolder {
 public:
  // Error{damaged} also when .metadata is missing beside .distcp files, and when a file is missing
  // or too short for its items. Error{usage} when the path holds no such checkpoint.
  explicit DcpFolder(std::string path);

  const std::string& path() const { return path_; }
  const std::vector<DcpTensor>& tensors() const { return metadata_.tensors; }
  const std::vector<DcpObject>& objects() const { return metadata_.objects; }
  // Name and bytes of each .distcp file that is used, names ascending.
  std::vector<std::pair<std::string, Index>> files() const;
  // Bytes of all tensors.
  Index num_bytes() const;

  std::span<const std::byte> bytes_of(const DcpItem& item) const;
  // The value of an object; see read_torch_object.
  Json value_of(const DcpObject& object) const;

  // Does the path look like such a checkpoint?
  static bool is_one(const std::string& path);

 private:
  void check_place(const DcpItem& item, const std::string& name) const;
  const MappedFile& file(const std::string& name) const;

  std::string path_;
  DcpMetadata metadata_;
  std::vector<std::pair<std::string, MappedFile>> files_;  // names ascending
};

// The values of one tensor in row-major order, pasted together from its chunks.
class DcpValues {
 public:
  // Opens all items and checks checksums, types and sizes. Both outlive this object. Error{damaged}
  // names tensor and item.
  DcpValues(const DcpFolder& folder, const DcpTensor& tensor);

  // Fills `out`, a whole number of elements, with the values from element `first` on.
  void read(std::uint64_t first, std::span<std::byte> out) const;

 private:
  // A chunk as stretches of consecutive elements of the tensor, all of one length.
  struct Source {
    std::span<const std::byte> bytes;
    std::uint64_t num_runs = 0, run_elements = 0;
    std::uint64_t first_element = 0;                   // of run 0 in the tensor
    std::vector<std::uint64_t> run_dims, run_strides;  // places of runs: a small tensor
    std::uint64_t begin_of(std::uint64_t run) const;
  };

  Source source_of(const DcpTensor& tensor, const DcpChunk& chunk,
                   std::span<const std::byte> bytes) const;

  std::uint64_t element_bytes_ = 0;
  std::vector<Source> sources_;
};

}  // namespace zaya
