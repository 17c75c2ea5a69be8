// SPDX-License-Identifier: Apache-2.0
//
// What this machine can do at best, measured in turn with the work that is compared with it: one
// large product, copying, reading. And tensors with contents for measurements.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/bench.h"
#include "base/thread_pool.h"
#include "tensor/arena.h"

namespace zaya {

// Memory of measurements. Tensors hold reproducible values between -1 and 1.
class BenchMemory {
 public:
  explicit BenchMemory(const Backend& backend);
  // Space for tensors of at most this many bytes in all; resident when touched.
  Tensor values(DType dtype, Shape shape, double scale = 1);
  Tensor zeros(DType dtype, Shape shape);
  Tensor ids(std::vector<std::int32_t> values);
  Arena& arena() { return arena_; }

 private:
  const Backend& backend_;
  Arena arena_;
  std::vector<float> pattern_;
};

// The best product of this backend: tiles of a large x w^T.
class ProductYardstick {
 public:
  explicit ProductYardstick(const Backend& backend);
  void run();
  double flops() const;

 private:
  const Backend& backend_;
  BenchMemory memory_;
  Tensor x_, w_, y_;
};

// Copies memory that no cache holds on all threads.
class CopyYardstick {
 public:
  explicit CopyYardstick(ThreadPool& pool);
  void run();
  double bytes() const;  // read plus written

 private:
  ThreadPool& pool_;
  std::vector<std::byte> from_, to_;
};

// Reads memory that no cache holds on all threads.
class ReadYardstick {
 public:
  explicit ReadYardstick(ThreadPool& pool);
  void run();
  double bytes() const;

 private:
  ThreadPool& pool_;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> sums_;
};

// Measures `body` in turn with a yardstick. `amount` is what body does, in the yardstick's measure
// (FLOPs or bytes); `unit` is "GFLOP/s" or "GB/s".
BenchRow against_product(std::string name, double flops, double target, FunctionRef<void()> body,
                         ProductYardstick& yardstick, double seconds);
BenchRow against_copy(std::string name, double bytes, double target, FunctionRef<void()> body,
                      CopyYardstick& yardstick, double seconds);

// Turns timings of work and yardstick into a row. `yardstick` names it: "best product".
struct Comparison {
  std::string name, unit, yardstick;
  double amount = 0, yardstick_amount = 0;  // FLOPs or bytes
  double target = 0;
};
BenchRow compare(const Comparison& comparison, const Timing& work, const Timing& yardstick);

}  // namespace zaya
