// SPDX-License-Identifier: Apache-2.0
#include "tensor/arena.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace zaya {

namespace {

constexpr Index kAlignment = 64;

Index rounded_up(Index num_bytes) { return (num_bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Bytes of a tensor, refused where the arena's total would leave 64 bits.
Index tensor_bytes(DType dtype, const Shape& shape, Index used, const std::string& arena) {
  Index num_bytes = size_of(dtype), total = 0;
  bool is_too_large = false;
  for (const Index dim : shape.dims()) {
    is_too_large = __builtin_mul_overflow(num_bytes, dim, &num_bytes) || is_too_large;
  }
  if (is_too_large || __builtin_add_overflow(num_bytes, used + kAlignment, &total)) {
    throw Error{ErrorKind::usage,
                fmt::format("{} needs more bytes than can be counted; make the model or "
                            "phase.N.micro_batch_tokens smaller",
                            arena)};
  }
  return rounded_up(num_bytes);
}

}  // namespace

Arena::Arena(std::string name, Index capacity) : name_(std::move(name)), capacity_(capacity) {
  if (capacity == 0) return;
  void* memory = mmap(nullptr, static_cast<std::size_t>(capacity), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error{ErrorKind::hardware, fmt::format("can't reserve {} bytes for {}: {}", capacity,
                                                 name_, std::strerror(errno))};
  }
  base_ = static_cast<std::byte*>(memory);
  // Large pages where the system gives them: fewer address translations in big passes.
  static_cast<void>(madvise(memory, static_cast<std::size_t>(capacity), MADV_HUGEPAGE));
}

Arena Arena::dry(std::string name) {
  Arena arena;
  arena.name_ = std::move(name);
  arena.is_dry_ = true;
  return arena;
}

Arena::~Arena() {
  if (base_ != nullptr) munmap(base_, static_cast<std::size_t>(capacity_));
}

Arena::Arena(Arena&& other) noexcept
    : name_(std::move(other.name_)),
      scope_(std::move(other.scope_)),
      base_(std::exchange(other.base_, nullptr)),
      capacity_(other.capacity_),
      used_(other.used_),
      peak_(other.peak_),
      is_dry_(other.is_dry_),
      table_(std::move(other.table_)) {}

Tensor Arena::take(DType dtype, Shape shape) {
  const Index num_bytes = tensor_bytes(dtype, shape, used_, name_);
  std::byte* data = base_ == nullptr ? nullptr : base_ + used_;
  used_ += num_bytes;
  peak_ = std::max(peak_, used_);
  if (!is_dry_) {
    ZAYA_CHECK(used_ <= capacity_,
               fmt::format("arena {} holds {} bytes, {} are needed", name_, capacity_, used_));
  }
  if (!scope_.empty()) table_[scope_] += num_bytes;
  return {data, dtype, shape};
}

void Arena::rewind(Index mark) {
  ZAYA_CHECK(mark >= 0 && mark <= used_);
  used_ = mark;
}

Arena::Scope::Scope(Arena& arena, std::string_view name)
    : arena_(arena), outer_(std::exchange(arena.scope_, std::string(name))) {}

Arena::Scope::~Scope() { arena_.scope_ = std::move(outer_); }

}  // namespace zaya
