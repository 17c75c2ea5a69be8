// SPDX-License-Identifier: Apache-2.0
//
// Tensors of a DCP checkpoint into a Hugging Face style folder: model.safetensors, or shards with
// an index.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/dcp.h"

namespace zaya {

struct DcpImport {
  struct Tensor {
    const DcpTensor* from = nullptr;
    std::string name;  // in the folder
  };
  std::vector<Tensor> tensors;
  std::string output;  // a folder that does not exist yet
  // Files that go into the folder unchanged: path and name there ("config.json").
  std::vector<std::pair<std::string, std::string>> copied_files;
  // A file holds at least one tensor and as many as fit into this size.
  Index max_shard_bytes = 5'000'000'000;
};

struct DcpImportResult {
  std::vector<std::string> files;  // names of the .safetensors files
  Index num_bytes = 0;             // of all tensors
};

// Writes under a temporary name, flushes, renames; a few megabytes of values are in memory at a
// time. Error{usage} when the output is there, Error{damaged} for an item that does not hold what
// .metadata states, Error{hardware} when the device is full. `observer` is told the bytes of values
// written since its last call, and may throw to end the work. Passes the fault points
// import.{write,flush} and import.rename.
DcpImportResult import_dcp(const DcpFolder& folder, const DcpImport& import,
                           const std::function<void(Index num_bytes)>& observer = {});

}  // namespace zaya
