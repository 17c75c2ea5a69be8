// SPDX-License-Identifier: Apache-2.0
#include "backend/bench/yardsticks.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/rng.h"

namespace zaya {

namespace {

constexpr Index kReserve = Index{64} << 30;  // address space; only what is touched becomes resident
constexpr Index kPattern = Index{1} << 18;
constexpr Index kRows = 2048, kInner = 1024, kColumns = 2048;
constexpr Index kReadBytes = Index{192} << 20, kBlock = Index{4} << 20;
// By one call of a thread: so much is written past the caches.
constexpr Index kCopiedBytes = Index{96} << 20;

}  // namespace

BenchMemory::BenchMemory(const Backend& backend)
    : backend_(backend), arena_("bench", kReserve), pattern_(kPattern) {
  const Rng rng(1, "bench");
  for (Index i = 0; i < kPattern; ++i) {
    pattern_[i] = static_cast<float>(2 * rng.uniform(static_cast<std::uint64_t>(i)) - 1);
  }
}

Tensor BenchMemory::values(DType dtype, Shape shape, double scale) {
  const Tensor tensor = arena_.take(dtype, shape);
  if (dtype != DType::f32) {
    const Rewind rewind(arena_);
    const Tensor chunk = values(DType::f32, {std::min(kPattern, tensor.count())}, scale);
    const Tensor flat = tensor.reshaped({tensor.count()});
    for (Index begin = 0; begin < tensor.count(); begin += chunk.count()) {
      const Index end = std::min(begin + chunk.count(), tensor.count());
      backend_.move->copy(chunk.slice(0, end - begin), flat.slice(begin, end));
    }
    return tensor;
  }
  float* out = tensor.as<float, 1>().data();
  for (Index i = 0; i < tensor.count(); ++i) {
    out[i] = pattern_[i % kPattern] * static_cast<float>(scale);
  }
  return tensor;
}

Tensor BenchMemory::zeros(DType dtype, Shape shape) {
  const Tensor tensor = arena_.take(dtype, shape);
  std::memset(tensor.data(), 0, static_cast<std::size_t>(tensor.num_bytes()));
  return tensor;
}

Tensor BenchMemory::ids(std::vector<std::int32_t> values) {
  const Tensor tensor = arena_.take(DType::i32, {static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as<std::int32_t, 1>().data());
  return tensor;
}

ProductYardstick::ProductYardstick(const Backend& backend)
    : backend_(backend),
      memory_(backend),
      x_(memory_.values(backend.compute(), {kRows, kInner})),
      w_(memory_.values(backend.compute(), {kColumns, kInner}, 0.05)),
      y_(memory_.zeros(backend.compute(), {kRows, kColumns})) {}

void ProductYardstick::run() { backend_.gemm->forward(x_, w_, ConstTensor{}, y_); }

double ProductYardstick::flops() const { return 2.0 * kRows * kInner * kColumns; }

CopyYardstick::CopyYardstick(ThreadPool& pool)
    : pool_(pool),
      from_(static_cast<std::size_t>(pool.num_threads() * kCopiedBytes)),
      to_(from_.size()) {
  std::memset(from_.data(), 1, from_.size());
}

void CopyYardstick::run() {
  pool_.run(pool_.num_threads(), [&](Index task, int) {
    std::memcpy(to_.data() + task * kCopiedBytes, from_.data() + task * kCopiedBytes, kCopiedBytes);
  });
}

double CopyYardstick::bytes() const { return 2.0 * static_cast<double>(from_.size()); }

ReadYardstick::ReadYardstick(ThreadPool& pool)
    : pool_(pool), words_(kReadBytes / 8, 1), sums_(kReadBytes / kBlock) {}

void ReadYardstick::run() {
  pool_.run(kReadBytes / kBlock, [&](Index task, int) {
    const std::uint64_t* words = words_.data() + task * (kBlock / 8);
    std::uint64_t sums[8] = {};
    for (Index i = 0; i < kBlock / 8; i += 8) {
      for (int j = 0; j < 8; ++j) sums[j] += words[i + j];
    }
    for (const std::uint64_t sum : sums) sums_[task] += sum;
  });
}

double ReadYardstick::bytes() const { return kReadBytes; }

BenchRow compare(const Comparison& c, const Timing& work, const Timing& yardstick) {
  BenchRow row;
  const double rate = c.amount / work.median, best = c.yardstick_amount / yardstick.median;
  row.name = c.name;
  row.value = rate * 1e-9;
  row.unit = c.unit;
  row.spread = work.spread();
  row.share = rate / best;
  row.ceiling = fmt::format("{} {:.{}f} {}", c.yardstick, best * 1e-9, best > 1e11 ? 0 : 1, c.unit);
  row.target = c.target;
  return row;
}

BenchRow against_product(std::string name, double flops, double target, FunctionRef<void()> body,
                         ProductYardstick& yardstick, double seconds) {
  const auto product = [&] { yardstick.run(); };
  const FunctionRef<void()> bodies[] = {body, product};
  const std::vector<Timing> timings = time_alternately(bodies, seconds);
  return compare({std::move(name), "GFLOP/s", "best product", flops, yardstick.flops(), target},
                 timings[0], timings[1]);
}

BenchRow against_copy(std::string name, double bytes, double target, FunctionRef<void()> body,
                      CopyYardstick& yardstick, double seconds) {
  const auto copy = [&] { yardstick.run(); };
  const FunctionRef<void()> bodies[] = {body, copy};
  const std::vector<Timing> timings = time_alternately(bodies, seconds);
  return compare({std::move(name), "GB/s", "copying", bytes, yardstick.bytes(), target}, timings[0],
                 timings[1]);
}

}  // namespace zaya
