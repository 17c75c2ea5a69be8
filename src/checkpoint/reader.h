// SPDX-License-Identifier: Apache-2.0
//
// Reads checkpoints of this project, and finds the one to continue from. Loading is by name and by
// rows of the first dim, so the number of files and slices that a checkpoint has does not matter.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/thread_pool.h"
#include "checkpoint/index.h"
#include "tensor/tensor.h"

namespace zaya {

// Called with the number of bytes read since the last call, by one thread at a time. May throw to
// end the work.
using ReadObserver = std::function<void(Index num_bytes)>;

class CheckpointReader {
 public:
  // Opens a step folder. Checks the index, that every file is there with its size, and that files
  // and index agree about names, types, shapes and places. Does not read the tensors' bytes.
  // Error{damaged} names what is wrong.
  explicit CheckpointReader(std::string path);

  const std::string& path() const { return path_; }
  Index step() const { return index_.step; }
  const CheckpointIndex& index() const { return index_; }
  const Json& run_state() const { return index_.run_state; }
  std::vector<std::string> names() const;
  // Bytes of all tensors.
  Index num_bytes() const;

  // Reads every byte and compares all checksums. Error{damaged} names tensor and file.
  void verify(ThreadPool* pool = nullptr, const ReadObserver& observer = {}) const;
  // Fills `out`, whose dtype and shape must be those of the tensor, and compares the checksums.
  void read(std::string_view name, Tensor out) const;
  // read() for many tensors, shared out among the threads of the pool.
  struct Target {
    std::string name;
    Tensor out;
  };
  void read_all(std::span<const Target> targets, ThreadPool& pool) const;
  // Fills `out` with the rows [begin, begin + out.dim(0)) of the tensor's first dim. Checksums are
  // compared for slices that are read as a whole.
  void read_rows(std::string_view name, Index begin, Tensor out) const;

  // The next reads come from the device instead of the system's cache.
  void drop_cache() const;

 private:
  void check_name() const;
  void open_file(std::size_t file);
  void locate_slices(std::size_t file, const SafetensorsHeader& header);
  const IndexTensor& wanted(std::string_view name, const Tensor& out, bool is_partial) const;
  // Position of the slice in its file, and its size.
  Index slice_begin(std::size_t tensor, std::size_t slice) const;
  Index slice_bytes(std::size_t tensor, std::size_t slice) const;
  [[noreturn]] void fail_checksum(std::size_t tensor, std::size_t slice) const;

  std::string path_;
  CheckpointIndex index_;
  std::vector<FileReader> files_;
  std::vector<std::vector<Index>> begins_;  // per tensor and slice
};

// A complete and verified checkpoint, and what was passed over on the way to it.
struct FoundCheckpoint {
  std::string path;                   // "" when the folder holds nothing
  std::vector<std::string> problems;  // one line for each newer checkpoint that is damaged
};

// The newest checkpoint whose every byte is right. `path` is a folder of step folders, a run folder
// (its checkpoints/ is searched) or a step folder. Problems are logged as warnings too.
// Error{damaged} when there is something but nothing usable: all are damaged, or the folder holds
// other things only (the message says what was seen; unfinished saves alone count as nothing).
FoundCheckpoint find_newest(const std::string& path, ThreadPool* pool = nullptr);
// find_newest().path.
std::string find_newest_checkpoint(const std::string& path, ThreadPool* pool = nullptr);

// Steps of the step folders in a folder, ascending; unfinished saves are left out.
std::vector<Index> list_steps(const std::string& folder);
// The folder of step folders that `path` stands for: `path`/checkpoints in a run folder, else
// `path` itself.
std::string checkpoints_folder(const std::string& path);

}  // namespace zaya
