// SPDX-License-Identifier: Apache-2.0
//
// The logical content of whatever holds tensors: a checkpoint of this project, a .safetensors file,
// a Hugging Face folder. Digests and comparisons see names, types, shapes, values and run state,
// never the layout in files.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/hf_folder.h"
#include "checkpoint/reader.h"

namespace zaya {

struct ContentTensor {
  TensorSpec spec;
  // The values in order, in mapped memory that belongs to the Content.
  std::vector<std::span<const std::byte>> pieces;
};

class Content {
 public:
  enum class Kind { checkpoint, safetensors, model_folder };

  // `path` is a .safetensors file, a step folder, a folder of step folders or a run folder (the
  // newest usable checkpoint), or a Hugging Face folder. Error{usage} when it is none of these.
  explicit Content(const std::string& path);

  Kind kind() const { return kind_; }
  // What was opened: the step folder when a run folder was given.
  const std::string& path() const { return path_; }
  const std::vector<ContentTensor>& tensors() const { return tensors_; }  // names ascending
  // Null unless this is a checkpoint.
  const CheckpointReader* reader() const { return reader_ ? &*reader_ : nullptr; }
  // Name and bytes of each file with tensors.
  std::vector<std::pair<std::string, Index>> files() const;
  Index num_bytes() const;
  // Metadata of the file; empty for folders.
  SafetensorsMetadata metadata() const;

  // Compares all checksums of a checkpoint; the other kinds have none and were checked when opened.
  void verify(ThreadPool* pool = nullptr, const ReadObserver& observer = {}) const;

 private:
  void add_files(const std::vector<SafetensorsFile>& files);
  void add_checkpoint();

  Kind kind_ = Kind::safetensors;
  std::string path_;
  std::optional<CheckpointReader> reader_;
  std::optional<HfFolder> folder_;
  std::vector<SafetensorsFile> files_;
  std::vector<ContentTensor> tensors_;
};

// "xxh3-128:<hex>" over names, types, shapes, values, and of a checkpoint the step and the lasting
// run state (publish.h). Equal training states have equal digests, whatever the layout in files.
std::string content_digest(const Content& content, ThreadPool* pool = nullptr);

// One thing in which two contents differ.
struct Difference {
  std::string where;          // "tensor w", "run_state.data.position"
  std::string text;           // what differs, for people
  Index num_different = 0;    // values of a tensor that differ in bits; 0 when not comparable
  Index first = -1;           // the first of them, counted over the whole tensor
  double max_difference = 0;  // the largest absolute difference; NaN when one side has a NaN
};

// In order: tensors by name, then the step and the entries of the run state. Values are equal when
// their bits are.
std::vector<Difference> compare_contents(const Content& a, const Content& b);

}  // namespace zaya
