// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/dcp.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "checkpoint/header_scanner.h"
#include "checkpoint/torch_archive.h"

namespace zaya {

namespace {

constexpr std::string_view kMetadataName = ".metadata";

template <class... Args>
[[noreturn]] void damaged(std::string_view where, fmt::format_string<Args...> format,
                          Args&&... args) {
  throw Error{ErrorKind::damaged,
              fmt::format("{}: {}", where, fmt::format(format, std::forward<Args>(args)...))};
}

std::string metadata_path(const std::string& path) { return join_path(path, kMetadataName); }

// Folders that look like a checkpoint of PyTorch or Megatron-LM but can't be read as one.
void refuse_others(const std::string& path) {
  if (!is_directory(path)) {
    throw Error{ErrorKind::usage, path + ": no such folder; give one that holds .metadata"};
  }
  for (const std::string& name : list_directory(path)) {
    if (name.ends_with(".distcp")) {
      damaged(metadata_path(path),
              "is missing beside {}: the save was not finished; take an "
              "earlier checkpoint",
              name);
    }
    if (name.starts_with("mp_rank_")) {
      throw Error{ErrorKind::usage,
                  path +
                      ": is an old Megatron-LM checkpoint (mp_rank_*), whole pickles per rank; "
                      "convert it with Megatron-LM's tools/checkpoint/convert.py to torch_dist"};
    }
  }
  throw Error{ErrorKind::usage,
              path + ": holds no .metadata; it is no torch.distributed.checkpoint folder"};
}

}  // namespace

bool DcpFolder::is_one(const std::string& path) {
  if (!is_directory(path)) return false;
  if (is_file(metadata_path(path))) return true;
  const std::vector<std::string> names = list_directory(path);
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.ends_with(".distcp"); });
}

DcpFolder::DcpFolder(std::string path) : path_(std::move(path)) {
  if (!is_file(metadata_path(path_))) refuse_others(path_);
  const MappedFile metadata_file(metadata_path(path_));
  metadata_ = parse_dcp_metadata(metadata_file.bytes(), metadata_file.path());
  std::vector<std::string> names;
  for (const DcpTensor& tensor : metadata_.tensors) {
    for (const DcpChunk& chunk : tensor.chunks) names.push_back(chunk.item.file);
  }
  for (const DcpObject& object : metadata_.objects) names.push_back(object.item.file);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (std::string& name : names) {
    const std::string item_path = join_path(path_, name);
    if (!is_file(item_path)) damaged(item_path, "is missing; .metadata names it");
    files_.emplace_back(std::move(name), MappedFile(item_path));
  }
  for (const DcpTensor& tensor : metadata_.tensors) {
    for (const DcpChunk& chunk : tensor.chunks) check_place(chunk.item, tensor.spec.name);
  }
  for (const DcpObject& object : metadata_.objects) check_place(object.item, object.name);
}

void DcpFolder::check_place(const DcpItem& item, const std::string& name) const {
  const std::uint64_t size = file(item.file).bytes().size();
  if (item.offset <= size && item.length <= size - item.offset) return;
  damaged(join_path(path_, item.file), "has {} bytes; {} should lie at [{}, {})", size,
          shown_name(name), item.offset, item.offset + item.length);
}

const MappedFile& DcpFolder::file(const std::string& name) const {
  return std::lower_bound(files_.begin(), files_.end(), name,
                          [](const auto& each, const std::string& key) { return each.first < key; })
      ->second;
}

std::vector<std::pair<std::string, Index>> DcpFolder::files() const {
  std::vector<std::pair<std::string, Index>> list;
  for (const auto& [name, mapped] : files_) {
    list.emplace_back(name, static_cast<Index>(mapped.bytes().size()));
  }
  return list;
}

Index DcpFolder::num_bytes() const {
  Index bytes = 0;
  for (const DcpTensor& tensor : tensors()) bytes += static_cast<Index>(num_bytes_of(tensor.spec));
  return bytes;
}

std::span<const std::byte> DcpFolder::bytes_of(const DcpItem& item) const {
  return file(item.file).bytes().subspan(item.offset, item.length);
}

Json DcpFolder::value_of(const DcpObject& object) const {
  const std::string where =
      fmt::format("{}: {}", join_path(path_, object.item.file), shown_name(object.name));
  return read_torch_object(TorchArchive(bytes_of(object.item), where));
}

DcpValues::DcpValues(const DcpFolder& folder, const DcpTensor& tensor)
    : element_bytes_(bits_of(tensor.spec.type) / 8) {
  for (const DcpChunk& chunk : tensor.chunks) {
    const std::string where =
        fmt::format("{}: tensor {} at byte {}", join_path(folder.path(), chunk.item.file),
                    shown_name(tensor.spec.name), chunk.item.offset);
    const StoredTensor stored = read_torch_tensor(TorchArchive(folder.bytes_of(chunk.item), where));
    const TensorSpec wanted{{}, tensor.spec.type, chunk.sizes};
    if (stored.spec != wanted) {
      damaged(where, "holds {}, .metadata states {}", describe(stored.spec), describe(wanted));
    }
    if (!stored.bytes.empty()) sources_.push_back(source_of(tensor, chunk, stored.bytes));
  }
}

DcpValues::Source DcpValues::source_of(const DcpTensor& tensor, const DcpChunk& chunk,
                                       std::span<const std::byte> bytes) const {
  const std::vector<std::uint64_t>& shape = tensor.spec.shape;
  Source source;
  source.bytes = bytes;
  // A run takes the trailing dims that the chunk has whole, and one more.
  std::size_t axis = shape.size();
  std::uint64_t stride = 1;
  source.run_elements = 1;
  bool is_whole = true;
  while (axis > 0 && is_whole) {
    --axis;
    source.run_elements *= chunk.sizes[axis];
    source.first_element += chunk.offsets[axis] * stride;
    stride *= shape[axis];
    is_whole = chunk.sizes[axis] == shape[axis];
  }
  source.num_runs = 1;
  source.run_dims.assign(chunk.sizes.begin(),
                         chunk.sizes.begin() + static_cast<std::ptrdiff_t>(axis));
  source.run_strides.resize(axis);
  for (std::size_t d = axis; d-- > 0;) {
    source.num_runs *= chunk.sizes[d];
    source.first_element += chunk.offsets[d] * stride;
    source.run_strides[d] = stride;
    stride *= shape[d];
  }
  return source;
}

std::uint64_t DcpValues::Source::begin_of(std::uint64_t run) const {
  std::uint64_t element = first_element;
  for (std::size_t d = run_dims.size(); d-- > 0;) {
    element += run % run_dims[d] * run_strides[d];
    run /= run_dims[d];
  }
  return element;
}

void DcpValues::read(std::uint64_t first, std::span<std::byte> out) const {
  const std::uint64_t end = first + out.size() / element_bytes_;
  for (const Source& source : sources_) {
    // Runs lie in ascending order: the first one that ends behind `first`.
    std::uint64_t low = 0, high = source.num_runs;
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      const bool is_before = source.begin_of(middle) + source.run_elements <= first;
      (is_before ? low : high) = is_before ? middle + 1 : middle;
    }
    for (std::uint64_t run = low; run < source.num_runs; ++run) {
      const std::uint64_t begin = source.begin_of(run);
      if (begin >= end) break;
      const std::uint64_t from = std::max(begin, first);
      const std::uint64_t to = std::min(begin + source.run_elements, end);
      std::memcpy(
          out.data() + (from - first) * element_bytes_,
          source.bytes.data() + (run * source.run_elements + (from - begin)) * element_bytes_,
          (to - from) * element_bytes_);
    }
  }
}

}  // namespace zaya
