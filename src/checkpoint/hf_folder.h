// SPDX-License-Identifier: Apache-2.0
//
// A Hugging Face model folder as a set of named tensors: model.safetensors, or shards with
// model.safetensors.index.json, or several .safetensors files without either (their union).
// Knows nothing of models.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"

namespace zaya {

class HfFolder {
 public:
  // Maps and checks all files. Error{damaged} names tensor and file: a shard that is missing or not
  // a plain file name, a tensor in two shards, in the index but not in its shard, or the reverse.
  // Error{usage} when the folder holds no .safetensors file.
  explicit HfFolder(std::string path);

  const std::string& path() const { return path_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }
  // All names, ascending by bytes.
  std::vector<std::string> names() const;
  // The bytes belong to this object.
  std::optional<StoredTensor> find(std::string_view name) const;
  // Error{damaged} naming the folder when there is no such tensor.
  StoredTensor tensor(std::string_view name) const;

  // Does the path look like such a folder?
  static bool is_one(const std::string& path);

 private:
  struct Place {
    std::string name;
    std::size_t file = 0;
    const SafetensorsEntry* entry = nullptr;  // belongs to the file
  };

  void open_files(std::vector<std::string> names);
  void index_tensors();
  void check_weight_map(const std::string& index_path,
                        const std::vector<std::pair<std::string, std::string>>& weight_map) const;
  const Place* place_of(std::string_view name) const;

  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::vector<Place> places_;  // names ascending
};

}  // namespace zaya
