// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/snapshot.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/stream_copy.h"
#include "checkpoint/header_scanner.h"
#include "checkpoint/storage_type.h"

namespace zaya {

namespace {

constexpr Index kPartElements = Index{1} << 20;

// A stretch of contiguous elements within one tensor.
struct Part {
  std::size_t tensor = 0;
  Index row = 0, column = 0, count = 0;
};

// Parts of a tensor in order of its elements: rows, or all elements as one row when contiguous.
void append_parts(const ConstTensor& tensor, std::size_t index, std::vector<Part>& parts) {
  const bool is_flat = tensor.is_contiguous();
  const Index rows = tensor.count() == 0 ? 0 : is_flat ? 1 : tensor.rows();
  const Index columns = is_flat ? tensor.count() : tensor.columns();
  for (Index row = 0; row < rows; ++row) {
    for (Index column = 0; column < columns; column += kPartElements) {
      parts.push_back({index, row, column, std::min(kPartElements, columns - column)});
    }
  }
}

const std::byte* address(const ConstTensor& tensor, const Part& part) {
  return tensor.data() + (part.row * tensor.row_stride() + part.column) * size_of(tensor.dtype());
}

// Index of the part's first element among the tensor's elements.
Index first_element(const ConstTensor& tensor, const Part& part) {
  return part.row * tensor.columns() + part.column;
}

// Is an exponent all ones? Written so that compilers use wide instructions.
template <class Word>
bool has_exponent(const std::byte* data, Index count, Word mask) {
  Word found = 0;
  for (Index i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, data + i * static_cast<Index>(sizeof(Word)), sizeof(Word));
    found |= static_cast<Word>((word & mask) == mask);
  }
  return found != 0;
}

bool has_not_finite(DType dtype, const std::byte* data, Index count) {
  switch (dtype) {
    case DType::f32: return has_exponent<std::uint32_t>(data, count, 0x7f800000u);
    case DType::bf16: return has_exponent<std::uint16_t>(data, count, 0x7f80u);
    case DType::f64: return has_exponent<std::uint64_t>(data, count, 0x7ff0000000000000u);
    default: return false;
  }
}

std::string describe_not_finite(const NamedTensor& named, const Part& part) {
  const ConstTensor& tensor = named.tensor;
  const StorageType type = storage_type_of(tensor.dtype());
  const std::byte* data = address(tensor, part);
  Index i = 0;
  while (i + 1 < part.count &&
         !has_not_finite(tensor.dtype(), data + i * size_of(tensor.dtype()), 1)) {
    ++i;
  }
  return fmt::format("tensor {} holds {} at element {} of {}", shown_name(named.name),
                     value_at(type, data, static_cast<std::uint64_t>(i)),
                     first_element(tensor, part) + i, describe(tensor));
}

// Are there values that are not finite? Copies them all unless `to` is null, block by block, while
// they are in the cache.
bool look_and_copy(DType dtype, const std::byte* data, Index count, std::byte* to) {
  constexpr Index kBlockElements = 4096;
  const Index element_bytes = size_of(dtype);
  bool is_bad = false;
  for (Index begin = 0; begin < count; begin += kBlockElements) {
    const Index elements = std::min(kBlockElements, count - begin);
    const std::byte* block = data + begin * element_bytes;
    is_bad = has_not_finite(dtype, block, elements) || is_bad;
    if (to != nullptr) {
      copy_past_caches(to + begin * element_bytes, block,
                       static_cast<std::size_t>(elements * element_bytes));
    }
  }
  return is_bad;
}

// Scans all parts and, when there are targets (one per tensor), copies them.
std::optional<std::string> pass_over(std::span<const NamedTensor> tensors,
                                     std::span<std::byte* const> targets, ThreadPool* pool) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < tensors.size(); ++i) append_parts(tensors[i].tensor, i, parts);
  constexpr Index kNone = std::numeric_limits<Index>::max();
  std::atomic<Index> first_bad{kNone};
  const auto work = [&](Index task, int) {
    const Part& part = parts[static_cast<std::size_t>(task)];
    const ConstTensor& tensor = tensors[part.tensor].tensor;
    const std::byte* data = address(tensor, part);
    const Index element_bytes = size_of(tensor.dtype());
    std::byte* to = targets.empty()
                        ? nullptr
                        : targets[part.tensor] + first_element(tensor, part) * element_bytes;
    if (!look_and_copy(tensor.dtype(), data, part.count, to)) return;
    Index known = first_bad.load();
    while (task < known && !first_bad.compare_exchange_weak(known, task)) {
    }
  };
  const Index num_tasks = static_cast<Index>(parts.size());
  if (pool != nullptr) {
    pool->run(num_tasks, work);
  } else {
    for (Index task = 0; task < num_tasks; ++task) work(task, 0);
  }
  if (first_bad == kNone) return std::nullopt;
  const Part& part = parts[static_cast<std::size_t>(first_bad.load())];
  return describe_not_finite(tensors[part.tensor], part);
}

}  // namespace

Index total_bytes(std::span<const NamedTensor> tensors) {
  Index total = 0;
  for (const NamedTensor& tensor : tensors) total += tensor.tensor.num_bytes();
  return total;
}

std::optional<std::string> find_not_finite(std::span<const NamedTensor> tensors, ThreadPool* pool) {
  return pass_over(tensors, {}, pool);
}

std::optional<std::string> Snapshot::take(std::span<const NamedTensor> tensors, ThreadPool* pool) {
  constexpr Index kAlignment = 64;
  const Index needed = total_bytes(tensors) + kAlignment * static_cast<Index>(tensors.size() + 1);
  copies_.clear();
  if (area_ && area_->capacity() < needed) area_.reset();
  if (!area_) area_.emplace("the snapshot of a checkpoint", needed);
  area_->rewind(0);
  std::vector<std::byte*> targets;
  for (const NamedTensor& named : tensors) {
    const Tensor copy = area_->take(named.tensor.dtype(), named.tensor.shape());
    targets.push_back(copy.data());
    copies_.push_back({named.name, copy});
  }
  return pass_over(tensors, targets, pool);
}

void Snapshot::release() {
  copies_.clear();
  area_.reset();
}

void for_each_part(const ConstTensor& tensor,
                   FunctionRef<void(const std::byte* data, std::size_t num_bytes)> use) {
  std::vector<Part> parts;
  append_parts(tensor, 0, parts);
  for (const Part& part : parts) {
    use(address(tensor, part), static_cast<std::size_t>(part.count * size_of(tensor.dtype())));
  }
}

}  // namespace zaya
