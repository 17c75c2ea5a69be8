// SPDX-License-Identifier: Apache-2.0
//
// Vectors of large tables. Their memory comes in large pages where the system has them: fewer page
// faults when they are filled, fewer address translations when they are read here and there.
#pragma once

#include <cstddef>
#include <vector>

namespace zaya {

// From the size of a large page's quarter on; smaller stretches are ordinary memory. Throws
// std::bad_alloc. `alignment` is at most 4096.
void* allocate_large(std::size_t num_bytes, std::size_t alignment);
void free_large(void* memory) noexcept;

template <class T>
struct LargeAllocator {
  using value_type = T;

  LargeAllocator() = default;
  template <class U>
  LargeAllocator(const LargeAllocator<U>&) noexcept {}

  T* allocate(std::size_t count) {
    return static_cast<T*>(allocate_large(count * sizeof(T), alignof(T)));
  }
  void deallocate(T* memory, std::size_t) noexcept { free_large(memory); }
  bool operator==(const LargeAllocator&) const = default;
};

template <class T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace zaya
