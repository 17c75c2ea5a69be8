// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <mutex>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/header_scanner.h"

namespace zaya {

namespace {

constexpr Index kChunkBytes = Index{1} << 18;

[[noreturn]] void damaged(const std::string& where, const std::string& what) {
  throw Error{ErrorKind::damaged, where + ": " + what};
}

// Calls use(bytes) for the parts of a range, read one after the other into `buffer`.
template <class Use>
void for_each_chunk(const FileReader& file, Index begin, Index num_bytes,
                    std::vector<std::byte>& buffer, Use use) {
  for (Index at = 0; at < num_bytes; at += kChunkBytes) {
    const Index length = std::min(kChunkBytes, num_bytes - at);
    file.read_at(begin + at, buffer.data(), static_cast<std::size_t>(length));
    use(std::span(buffer.data(), static_cast<std::size_t>(length)));
  }
}

}  // namespace

CheckpointReader::CheckpointReader(std::string path) : path_(std::move(path)) {
  const std::string index_path = join_path(path_, kIndexName);
  if (!is_directory(path_)) {
    throw Error{ErrorKind::usage, path_ + ": no such checkpoint folder"};
  }
  if (!is_file(index_path)) {
    damaged(path_, "has no index.json: not a checkpoint, or one that was never finished");
  }
  index_ = parse_index(read_file(index_path), index_path);
  check_name();
  begins_.resize(index_.tensors.size());
  for (std::size_t i = 0; i < begins_.size(); ++i) {
    begins_[i].assign(index_.tensors[i].slices.size(), -1);
  }
  for (std::size_t i = 0; i < index_.files.size(); ++i) open_file(i);
}

void CheckpointReader::check_name() const {
  const std::optional<Index> step = step_of_name(base_name(path_));
  if (step && *step != index_.step) {
    damaged(path_, fmt::format("is named for step {} but holds step {}", *step, index_.step));
  }
}

void CheckpointReader::open_file(std::size_t file) {
  const IndexFile& expected = index_.files[file];
  const std::string file_path = join_path(path_, expected.name);
  if (!is_file(file_path)) damaged(file_path, "is missing");
  const FileReader& reader = files_.emplace_back(file_path);
  if (reader.size() != expected.num_bytes) {
    damaged(file_path,
            fmt::format("has {} bytes, the index says {}", reader.size(), expected.num_bytes));
  }
  const std::uint64_t size = static_cast<std::uint64_t>(reader.size());
  std::vector<std::byte> head(std::min<std::uint64_t>(size, 8));
  reader.read_at(0, head.data(), head.size());
  head.resize(safetensors_data_offset(head, size, file_path));
  reader.read_at(0, head.data(), head.size());
  if (checksum_text(hash128(head)) != expected.head_checksum) {
    damaged(file_path, "the checksum of its header does not fit the index");
  }
  locate_slices(file, parse_safetensors(head, size, file_path));
}

void CheckpointReader::locate_slices(std::size_t file, const SafetensorsHeader& header) {
  std::size_t num_found = 0;
  const std::string& file_path = files_[file].path();
  for (std::size_t t = 0; t < index_.tensors.size(); ++t) {
    const IndexTensor& tensor = index_.tensors[t];
    for (std::size_t s = 0; s < tensor.slices.size(); ++s) {
      if (tensor.slices[s].file != file) continue;
      const SafetensorsEntry* entry = header.find(tensor.spec.name);
      const std::string name = shown_name(tensor.spec.name);
      if (entry == nullptr) damaged(file_path, fmt::format("has no tensor {}", name));
      const TensorSpec expected{tensor.spec.name, tensor.spec.type,
                                slice_shape(tensor.spec, tensor.slices[s])};
      if (entry->spec != expected) {
        damaged(file_path, fmt::format("tensor {} is {}, the index says {}", name,
                                       describe(entry->spec), describe(expected)));
      }
      begins_[t][s] = static_cast<Index>(header.data_offset + entry->begin);
      ++num_found;
    }
  }
  if (num_found != header.entries.size()) {
    damaged(file_path, fmt::format("holds {} tensors, the index lists {} of them",
                                   header.entries.size(), num_found));
  }
}

std::vector<std::string> CheckpointReader::names() const {
  std::vector<std::string> names;
  for (const IndexTensor& tensor : index_.tensors) names.push_back(tensor.spec.name);
  return names;
}

Index CheckpointReader::num_bytes() const {
  Index total = 0;
  for (const IndexTensor& tensor : index_.tensors) {
    total += static_cast<Index>(num_bytes_of(tensor.spec));
  }
  return total;
}

Index CheckpointReader::slice_begin(std::size_t tensor, std::size_t slice) const {
  return begins_[tensor][slice];
}

Index CheckpointReader::slice_bytes(std::size_t tensor, std::size_t slice) const {
  const TensorSpec& spec = index_.tensors[tensor].spec;
  const IndexSlice& part = index_.tensors[tensor].slices[slice];
  return static_cast<Index>(num_bytes_of({spec.name, spec.type, slice_shape(spec, part)}));
}

void CheckpointReader::fail_checksum(std::size_t tensor, std::size_t slice) const {
  const IndexTensor& one = index_.tensors[tensor];
  damaged(files_[one.slices[slice].file].path(),
          fmt::format("the bytes of tensor {} do not fit their checksum: use another checkpoint",
                      shown_name(one.spec.name)));
}

void CheckpointReader::verify(ThreadPool* pool, const ReadObserver& observer) const {
  std::vector<std::pair<std::size_t, std::size_t>> tasks;
  for (std::size_t t = 0; t < index_.tensors.size(); ++t) {
    for (std::size_t s = 0; s < index_.tensors[t].slices.size(); ++s) tasks.emplace_back(t, s);
  }
  std::vector<std::vector<std::byte>> buffers(pool == nullptr ? 1 : pool->num_threads());
  std::mutex mutex;  // one call of the observer at a time
  const auto check = [&](Index task, int worker) {
    const auto [t, s] = tasks[static_cast<std::size_t>(task)];
    const IndexSlice& slice = index_.tensors[t].slices[s];
    std::vector<std::byte>& buffer = buffers[static_cast<std::size_t>(worker)];
    buffer.resize(kChunkBytes);
    Hasher hasher;
    for_each_chunk(files_[slice.file], slice_begin(t, s), slice_bytes(t, s), buffer,
                   [&](std::span<const std::byte> bytes) {
                     hasher.add(bytes.data(), bytes.size());
                     if (!observer) return;
                     const std::lock_guard lock(mutex);
                     observer(static_cast<Index>(bytes.size()));
                   });
    if (checksum_text(hasher.finish()) != slice.checksum) fail_checksum(t, s);
  };
  const Index num_tasks = static_cast<Index>(tasks.size());
  if (pool != nullptr) {
    pool->run(num_tasks, check);
  } else {
    for (Index task = 0; task < num_tasks; ++task) check(task, 0);
  }
}

const IndexTensor& CheckpointReader::wanted(std::string_view name, const Tensor& out,
                                            bool is_partial) const {
  const IndexTensor* tensor = index_.find(name);
  if (tensor == nullptr) damaged(path_, fmt::format("has no tensor {}", shown_name(name)));
  std::vector<std::uint64_t> shape = storage_shape(out.shape());
  if (is_partial && !shape.empty() && !tensor->spec.shape.empty()) {
    shape.front() = tensor->spec.shape.front();
  }
  if (tensor->spec.shape != shape || dtype_of_storage(tensor->spec.type) != out.dtype()) {
    damaged(path_, fmt::format("tensor {} is {} but {} is needed", shown_name(name),
                               describe(tensor->spec), describe(ConstTensor(out))));
  }
  return *tensor;
}

void CheckpointReader::read(std::string_view name, Tensor out) const {
  static_cast<void>(wanted(name, out, false));
  read_rows(name, 0, out);
}

void CheckpointReader::read_all(std::span<const Target> targets, ThreadPool& pool) const {
  pool.run(static_cast<Index>(targets.size()), [&](Index i, int) {
    const Target& target = targets[static_cast<std::size_t>(i)];
    read(target.name, target.out);
  });
}

void CheckpointReader::read_rows(std::string_view name, Index begin, Tensor out) const {
  const IndexTensor& tensor = wanted(name, out, true);
  ZAYA_CHECK(out.is_contiguous(), tensor.spec.name);
  const std::size_t t = static_cast<std::size_t>(&tensor - index_.tensors.data());
  const Index rows = out.shape().rank() == 0 ? 1 : out.dim(0);
  const Index whole = out.shape().rank() == 0 ? 1 : static_cast<Index>(tensor.spec.shape.front());
  ZAYA_CHECK(begin >= 0 && begin + rows <= whole, tensor.spec.name);
  const Index row_bytes = rows == 0 ? 0 : out.num_bytes() / rows;
  for (std::size_t s = 0; s < tensor.slices.size(); ++s) {
    const IndexSlice& slice = tensor.slices[s];
    const Index first = std::max(begin, slice.offset);
    const Index last = std::min(begin + rows, slice.offset + slice.extent);
    if (first >= last) continue;
    std::byte* target = out.data() + (first - begin) * row_bytes;
    const std::size_t num_bytes = static_cast<std::size_t>((last - first) * row_bytes);
    files_[slice.file].read_at(slice_begin(t, s) + (first - slice.offset) * row_bytes, target,
                               num_bytes);
    const bool is_whole = last - first == slice.extent;
    if (is_whole &&
        checksum_text(hash128(std::span<const std::byte>(target, num_bytes))) != slice.checksum) {
      fail_checksum(t, s);
    }
  }
}

void CheckpointReader::drop_cache() const {
  for (const FileReader& file : files_) file.drop_cache();
}

}  // namespace zaya
