// SPDX-License-Identifier: Apache-2.0
//
// Copies of tensors at one moment, in memory owned by the writer, so that training goes on while
// they are written.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/arena.h"
#include "tensor/named_tensor.h"

namespace zaya {

// Bytes of the values of all tensors.
Index total_bytes(std::span<const NamedTensor> tensors);

// Looks at every value of the floating-point tensors. A sentence about the first NaN or infinity
// ("tensor w holds nan at element 12 of f32 [4, 8]"), or none.
std::optional<std::string> find_not_finite(std::span<const NamedTensor> tensors, ThreadPool* pool);

// One area of memory, reserved at the first copy and used again as long as it is large enough.
class Snapshot {
 public:
  // Copies all tensors and looks for values that are not finite on the way, as find_not_finite().
  // The earlier copy is overwritten: whoever reads it has to be done. Error{hardware} when memory
  // is refused.
  std::optional<std::string> take(std::span<const NamedTensor> tensors, ThreadPool* pool);
  // The copies, contiguous; they belong to this object.
  std::span<const NamedTensor> tensors() const { return copies_; }
  // Gives the memory back.
  void release();

 private:
  std::optional<Arena> area_;
  std::vector<NamedTensor> copies_;
};

// Calls use(data, num_bytes) for the parts of a tensor's values in order, none above 8 MiB.
void for_each_part(const ConstTensor& tensor,
                   FunctionRef<void(const std::byte* data, std::size_t num_bytes)> use);

}  // namespace zaya
