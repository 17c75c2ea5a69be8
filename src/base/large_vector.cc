// SPDX-License-Identifier: Apache-2.0
#include "base/large_vector.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace zaya {

namespace {

constexpr std::size_t kPageBytes = std::size_t{2} << 20;

}  // namespace

void* allocate_large(std::size_t num_bytes, std::size_t alignment) {
  const bool is_large = num_bytes >= kPageBytes / 4;
  alignment = is_large ? kPageBytes : std::max(alignment, alignof(std::max_align_t));
  if (num_bytes > SIZE_MAX - alignment) throw std::bad_alloc();
  const std::size_t rounded = (num_bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, std::max(rounded, alignment));
  if (memory == nullptr) throw std::bad_alloc();
  // Where that is refused the memory is as good as any.
  if (is_large) static_cast<void>(madvise(memory, rounded, MADV_HUGEPAGE));
  return memory;
}

void free_large(void* memory) noexcept { std::free(memory); }

}  // namespace zaya
