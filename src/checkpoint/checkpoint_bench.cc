// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "tensor/arena.h"

namespace zaya {

namespace {

constexpr Index kTensorBytes = Index{8} << 20, kBlock = Index{8} << 20;

struct State {
  explicit State(Index bytes) : arena("state", 2 * bytes) {
    const Index count = std::max<Index>(bytes / kTensorBytes, 1);
    for (Index i = 0; i < count; ++i) {
      const Tensor tensor = arena.take(DType::f32, {kTensorBytes / 4});
      float* values = tensor.as<float, 1>().data();
      for (Index j = 0; j < tensor.count(); ++j) values[j] = static_cast<float>(i + j % 1000);
      tensors.push_back({fmt::format("tensor.{}", i), tensor});
      num_bytes += kTensorBytes;
    }
  }

  Arena arena;
  std::vector<NamedTensor> tensors;
  Index num_bytes = 0;
};

double seconds_of(FunctionRef<void()> body) {
  const double began = monotonic_seconds();
  body();
  return monotonic_seconds() - began;
}

// As dd does: blocks of 8 MiB, flushed to the device at the end.
void write_plainly(const std::string& path, Index num_bytes) {
  const std::vector<char> block(kBlock, 'x');
  FileWriter writer(path);
  for (Index at = 0; at < num_bytes; at += kBlock) writer.write(block.data(), block.size());
  writer.sync();
  writer.close();
}

void read_plainly(const std::string& path) {
  const FileReader reader(path);
  reader.drop_cache();
  std::vector<char> block(kBlock);
  for (Index at = 0; at < reader.size(); at += kBlock) {
    reader.read_at(at, block.data(),
                   static_cast<std::size_t>(std::min(kBlock, reader.size() - at)));
  }
}

class CheckpointBench {
 public:
  CheckpointBench(const std::string& folder, Index state_bytes, ThreadPool& pool)
      : folder_(folder),
        pool_(pool),
        state_(state_bytes),
        copy_("copy", 2 * state_bytes),
        writer_(join_path(folder, "checkpoints"), Retention{1, 0}, pool) {
    into_ = copy_.take(DType::u8, {state_.num_bytes});
  }

  void round(Index step);
  // Drops what was measured so far.
  void forget();
  std::vector<BenchRow> rows() const;

 private:
  void copy_state();
  void load(const std::string& path);

  std::string folder_;
  ThreadPool& pool_;
  State state_;
  Arena copy_;
  Tensor into_;
  CheckpointWriter writer_;
  std::vector<double> copying_, snapshot_, plain_write_, write_, whole_, plain_read_, load_;
};

void CheckpointBench::copy_state() {
  pool_.run(static_cast<Index>(state_.tensors.size()), [&](Index i, int) {
    std::memcpy(into_.data() + i * kTensorBytes, state_.tensors[i].tensor.data(), kTensorBytes);
  });
}

void CheckpointBench::load(const std::string& path) {
  const CheckpointReader reader(path);
  reader.drop_cache();
  std::vector<CheckpointReader::Target> targets;
  for (const NamedTensor& named : state_.tensors) {
    const Index begin = static_cast<Index>(targets.size()) * kTensorBytes;
    targets.push_back({named.name, Tensor(into_.data() + begin, DType::f32, named.tensor.shape())});
  }
  reader.read_all(targets, pool_);
}

void CheckpointBench::round(Index step) {
  copying_.push_back(seconds_of([&] { copy_state(); }));
  const std::string plain = join_path(folder_, "plain");
  plain_write_.push_back(seconds_of([&] { write_plainly(plain, state_.num_bytes); }));
  plain_read_.push_back(seconds_of([&] { read_plainly(plain); }));
  remove_all(plain);
  static_cast<void>(writer_.save(step, state_.tensors, Json::object()));
  writer_.wait();
  const std::vector<SaveResult> results = writer_.poll();
  const SaveResult& saved = results.back();
  snapshot_.push_back(saved.snapshot_seconds);
  write_.push_back(saved.write_seconds);
  whole_.push_back(saved.seconds);
  load_.push_back(seconds_of([&] { load(saved.path); }));
}

void CheckpointBench::forget() {
  for (std::vector<double>* seconds :
       {&copying_, &snapshot_, &plain_write_, &write_, &whole_, &plain_read_, &load_}) {
    seconds->clear();
  }
}

std::vector<BenchRow> CheckpointBench::rows() const {
  const double bytes = static_cast<double>(state_.num_bytes);
  const auto row = [&](const char* name, const std::vector<double>& work, double moved,
                       const std::string& yardstick, const std::vector<double>& plain) {
    const Timing t = summarize(work), p = summarize(plain);
    BenchRow r;
    r.name = name;
    r.value = moved / t.median * 1e-9;
    r.unit = "GB/s";
    r.spread = t.spread();
    r.share = p.median / t.median;
    r.ceiling = fmt::format("{} {:.2f} GB/s", yardstick, moved / p.median * 1e-9);
    r.target = 0.8;
    return r;
  };
  std::vector<BenchRow> rows{
      row("snapshot (blocks a step)", snapshot_, 2 * bytes, "copying", copying_),
      row("write, flush included", write_, bytes, "sequential writing", plain_write_),
      row("load, checksums compared", load_, bytes, "sequential reading", plain_read_)};
  const Timing whole = summarize(whole_);
  BenchRow all;
  all.name = "write, read back and publish";
  all.value = bytes / whole.median * 1e-9;
  all.unit = "GB/s";
  all.spread = whole.spread();
  rows.push_back(all);
  return rows;
}

}  // namespace

std::vector<BenchRow> bench_checkpoint(const std::string& folder, Index state_bytes, Index rounds,
                                       ThreadPool& pool) {
  CheckpointBench bench(folder, state_bytes, pool);
  bench.round(0);  // touches all memory for the first time
  bench.forget();
  for (Index i = 1; i <= rounds; ++i) bench.round(i);
  return bench.rows();
}

}  // namespace zaya
