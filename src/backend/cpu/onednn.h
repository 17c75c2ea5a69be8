// SPDX-License-Identifier: Apache-2.0
//
// One matrix product on one thread, by oneDNN. Callers cut large products into tiles by shape and
// run them on the pool.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/workspace.h"

namespace zaya {

// c = op(a) op(b), or c += op(a) op(b), sums in f32 over the whole of k. Leading dimensions are the
// distance of stored rows in elements.
struct Product {
  Index m = 0, n = 0, k = 0;
  const void* a = nullptr;  // [m, k], or stored as [k, m]
  Index lda = 0;
  bool a_transposed = false;
  const void* b = nullptr;  // [k, n], or stored as [n, k]
  Index ldb = 0;
  bool b_transposed = false;
  void* c = nullptr;  // [m, n]
  Index ldc = 0;
  DType operands = DType::f32;  // of a and b
  DType result = DType::f32;    // of c; bf16 only without adds
  bool adds = false;
};

class Products {
 public:
  // Limits oneDNN to `set`, which a process can do once: Error{usage} when another set is in force.
  Products(InstructionSet set, int num_workers);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // Runs on the calling thread with the memory of `worker`. Bits depend on the shape and the
  // instruction set only. Without the bf16 instruction bf16 operands are widened to f32 first.
  void run(const Product& product, int worker) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zaya
