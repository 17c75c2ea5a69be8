// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/workspace.h"

#include <sys/mman.h>

#include <string>
#include <utility>

#include "base/check.h"

namespace zaya {

namespace {

constexpr Index kGranule = Index{2} << 20;

}  // namespace

Workspace::~Workspace() {
  if (base_ != nullptr) ::munmap(base_, static_cast<std::size_t>(capacity_));
}

Workspace::Workspace(Workspace&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)),
      used_(std::exchange(other.used_, 0)) {}

void Workspace::reset(Index num_bytes) {
  used_ = 0;
  if (num_bytes <= capacity_) return;
  if (base_ != nullptr) ::munmap(base_, static_cast<std::size_t>(capacity_));
  capacity_ = (num_bytes + kGranule - 1) / kGranule * kGranule;
  void* block = ::mmap(nullptr, static_cast<std::size_t>(capacity_), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ZAYA_CHECK(block != MAP_FAILED, "no memory for a kernel workspace of " +
                                      std::to_string(capacity_) + " bytes; use smaller batches");
  base_ = static_cast<std::byte*>(block);
}

void* Workspace::take_bytes(Index num_bytes) {
  std::byte* part = base_ + used_;
  used_ += rounded(num_bytes);
  ZAYA_DCHECK(used_ <= capacity_, std::to_string(used_) + " of " + std::to_string(capacity_));
  return part;
}

}  // namespace zaya
