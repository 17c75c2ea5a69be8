// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/dcp_import.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/log.h"

namespace zaya {

namespace {

constexpr std::size_t kSlabBytes = 1 << 22;

using Tensors = std::vector<DcpImport::Tensor>;

Index bytes_of(const DcpImport::Tensor& tensor) {
  return static_cast<Index>(num_bytes_of(tensor.from->spec));
}

// Where each shard ends: number of the first tensor behind it.
std::vector<std::size_t> cut_shards(const Tensors& tensors, Index max_bytes) {
  std::vector<std::size_t> ends;
  Index filled = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (filled > 0 && bytes_of(tensors[i]) > max_bytes - filled) {
      ends.push_back(i);
      filled = 0;
    }
    filled += bytes_of(tensors[i]);
  }
  ends.push_back(tensors.size());
  return ends;
}

void write_values(const DcpFolder& folder, const DcpTensor& tensor, FileWriter& writer,
                  const std::function<void(Index)>& observer) {
  const DcpValues values(folder, tensor);
  const std::uint64_t width = bits_of(tensor.spec.type) / 8, count = element_count(tensor.spec);
  const std::uint64_t step = kSlabBytes / width;
  std::vector<std::byte> slab;
  for (std::uint64_t first = 0; first < count; first += step) {
    slab.resize(std::min(step, count - first) * width);
    values.read(first, slab);
    writer.write(slab.data(), slab.size());
    if (observer) observer(static_cast<Index>(slab.size()));
  }
}

std::string shard_name(std::size_t shard, std::size_t num_shards) {
  if (num_shards == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, num_shards);
}

void write_index(const Tensors& tensors, const std::vector<std::size_t>& ends,
                 const std::string& folder, const DcpImportResult& result) {
  Json::Object map;  // names are different: no search for each
  Json metadata = Json::object(), index = Json::object();
  double num_parameters = 0;
  std::size_t shard = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    while (i >= ends[shard]) ++shard;
    map.emplace_back(tensors[i].name, result.files[shard]);
    num_parameters += static_cast<double>(element_count(tensors[i].from->spec));
  }
  metadata.set("total_size", result.num_bytes);
  metadata.set("total_parameters", static_cast<Index>(num_parameters));
  index.set("metadata", std::move(metadata));
  index.set("weight_map", Json(std::move(map)));
  write_file_atomically(join_path(folder, "model.safetensors.index.json"), index.dump(2) + "\n");
}

void check_room(const DcpImport& import, Index num_bytes) {
  if (path_kind(import.output) != PathKind::absent) {
    throw Error{ErrorKind::usage, import.output + ": is there already; choose another --output"};
  }
  const std::string parent = directory_name(import.output);
  make_directories(parent);
  if (free_bytes(parent) >= num_bytes) return;
  throw Error{ErrorKind::hardware,
              fmt::format("{}: the tensors take {}, {} are free; free some space on that file "
                          "system",
                          import.output, human_bytes(static_cast<double>(num_bytes)),
                          human_bytes(static_cast<double>(free_bytes(parent))))};
}

// A new folder that goes away unless it is published.
class PartialFolder {
 public:
  explicit PartialFolder(std::string path) : path_(std::move(path)) {
    remove_all(path_);
    make_directories(path_);
  }
  ~PartialFolder() {
    try {
      if (!path_.empty()) remove_all(path_);
    } catch (const Error& error) {
      // A destructor may not throw; the next import removes it.
      log_warning(error.message());
    }
  }
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  const std::string& path() const { return path_; }
  void publish(const std::string& name) {
    rename_durably(path_, name);
    path_.clear();
  }

 private:
  std::string path_;
};

void write_folder(const DcpFolder& folder, const DcpImport& import, const Tensors& tensors,
                  const std::string& partial, DcpImportResult& result,
                  const std::function<void(Index)>& observer) {
  for (const auto& [path, name] : import.copied_files) {
    write_file_atomically(join_path(partial, name), read_file(path));
  }
  const std::vector<std::size_t> ends = cut_shards(tensors, import.max_shard_bytes);
  std::size_t begin = 0;
  for (std::size_t shard = 0; shard < ends.size(); begin = ends[shard++]) {
    std::vector<TensorSpec> specs;
    for (std::size_t i = begin; i < ends[shard]; ++i) {
      specs.push_back(tensors[i].from->spec);
      specs.back().name = tensors[i].name;
    }
    result.files.push_back(shard_name(shard, ends.size()));
    write_safetensors(
        join_path(partial, result.files.back()), specs, {{"format", "pt"}},
        [&](std::size_t i, FileWriter& writer) {
          write_values(folder, *tensors[begin + i].from, writer, observer);
        },
        "import");
  }
  if (ends.size() > 1) write_index(tensors, ends, partial, result);
  sync_directory(partial);
}

}  // namespace

DcpImportResult import_dcp(const DcpFolder& folder, const DcpImport& import,
                           const std::function<void(Index num_bytes)>& observer) {
  Tensors tensors = import.tensors;
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  DcpImportResult result;
  for (const DcpImport::Tensor& tensor : tensors) result.num_bytes += bytes_of(tensor);
  check_room(import, result.num_bytes);
  PartialFolder partial(import.output + ".partial");
  write_folder(folder, import, tensors, partial.path(), result, observer);
  fault_point("import.rename");
  partial.publish(import.output);
  return result;
}

}  // namespace zaya
