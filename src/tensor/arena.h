// SPDX-License-Identifier: Apache-2.0
//
// Stack memory for one lifetime: run (weights, gradients, optimizer state), step (saved
// activations, batch) or scratch (within a call).
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace zaya {

class Arena {
 public:
  // Reserves address space for `capacity` bytes; pages become resident when touched. `name` appears
  // in messages. Throws Error{hardware} when the system refuses.
  Arena(std::string name, Index capacity);
  // An arena without memory behind it: take() returns tensors without data and counts. `plan` runs
  // the real construction and a real step on dry arenas, so forecast and use are one piece of code.
  static Arena dry(std::string name);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;

  // Memory for a tensor, aligned to 64 bytes, not cleared (fresh pages read as zero). It is valid
  // until the arena is rewound past it. Exceeding the capacity is our own defect: the plan was
  // wrong, and the process aborts with both figures.
  Tensor take(DType dtype, Shape shape);

  // Position now; rewind(mark) gives back everything taken since.
  Index mark() const { return used_; }
  void rewind(Index mark);

  Index used() const { return used_; }
  // Most bytes in use at any time since construction.
  Index peak() const { return peak_; }
  Index capacity() const { return capacity_; }
  bool is_dry() const { return is_dry_; }

  // Adds what is taken until the scope ends to the named line of the memory table.
  class Scope {
   public:
    Scope(Arena& arena, std::string_view name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    std::string outer_;
  };
  // Bytes taken per scope name since construction (rewound memory counts again when taken again).
  const std::map<std::string, Index>& table() const { return table_; }

 private:
  Arena() = default;

  std::string name_, scope_;
  std::byte* base_ = nullptr;
  Index capacity_ = 0, used_ = 0, peak_ = 0;
  bool is_dry_ = false;
  std::map<std::string, Index> table_;
};

// Rewinds an arena at the end of a C++ scope.
class Rewind {
 public:
  explicit Rewind(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~Rewind() { arena_.rewind(mark_); }
  Rewind(const Rewind&) = delete;
  Rewind& operator=(const Rewind&) = delete;

 private:
  Arena& arena_;
  Index mark_;
};

}  // namespace zaya
