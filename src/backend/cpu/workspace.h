// SPDX-License-Identifier: Apache-2.0
//
// Memory of kernels that grows at first use and is kept: after the first step nothing is allocated.
#pragma once

#include <cstddef>

#include "base/types.h"
#include "tensor/dtype.h"

namespace zaya {

// One block of memory, handed out anew by every kernel. Not for use by two threads at a time.
class Workspace {
 public:
  Workspace() = default;
  ~Workspace();
  Workspace(Workspace&& other) noexcept;
  Workspace& operator=(Workspace&&) = delete;

  // Makes the block at least this large and takes back what was handed out. Earlier contents are
  // lost when it grows. A system without memory ends the process.
  void reset(Index num_bytes);

  // The next part of the block, aligned to 64 bytes, content undefined. Parts must fit what reset()
  // was told, each rounded up to 64 bytes.
  template <class T>
  T* take(Index count) {
    return static_cast<T*>(take_bytes(count * static_cast<Index>(sizeof(T))));
  }
  void* take_bytes(Index num_bytes);

  Index capacity() const { return capacity_; }

  // What take() of so many elements or bytes uses up.
  static Index rounded(Index num_bytes) { return (num_bytes + 63) / 64 * 64; }

 private:
  std::byte* base_ = nullptr;
  Index capacity_ = 0, used_ = 0;
};

}  // namespace zaya
