// SPDX-License-Identifier: Apache-2.0
#include "train/memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/bench.h"
#include "base/clock.h"
#include "base/error.h"
#include "model/forecast.h"
#include "optim/balancing.h"
#include "optim/optimizer.h"
#include "train/observer.h"
#include "train/spike.h"
#include "train/start.h"
#include "train/step.h"

namespace zaya {

namespace {

// Workspaces of kernels and threads' stacks; the rest of the program is measured.
constexpr Index kWorkspaceBytes = Index{16} << 20;
// Batches that the feed holds ready; see data/prefetcher.
constexpr Index kPrefetchedBatches = 4;
constexpr Index kFeedBytesPerPosition = 32;

// Everything in the run arena except gradients, copies and rotary tables goes into checkpoints.
Index saved_state_bytes(const std::map<std::string, Index>& table) {
  Index bytes = 0;
  for (const auto& [name, size] : table) {
    const bool is_derived =
        name == "gradients" || name == "weight copies" || name == "rotary tables";
    if (!is_derived) bytes += size;
  }
  return bytes;
}

PassForecast largest_pass(const TrainConfig& config, Numerics numerics) {
  PassForecast most;
  for (const PhaseOptions& phase : config.phases) {
    PassShape shape;
    shape.length = phase.sequence_length;
    shape.rows = micro_batch_tokens(phase, config.parallel) / phase.sequence_length;
    shape.has_gradients = true;
    shape.recomputes = config.run.recompute == "blocks";
    const PassForecast one = forecast_pass(config.model, numerics, shape);
    most.saved_bytes = std::max(most.saved_bytes, one.saved_bytes);
    most.scratch_bytes = std::max(most.scratch_bytes, one.scratch_bytes);
    most.work.product_flops = std::max(most.work.product_flops, one.work.product_flops);
    most.work.bytes = std::max(most.work.bytes, one.work.bytes);
  }
  return most;
}

// The forecast itself, too, makes the rows of a pass.
void check_positions(const TrainConfig& config) {
  const Index positions = largest_micro_batch(config);
  const Index needed = kPrefetchedBatches * kFeedBytesPerPosition * positions;
  const Index available = available_bytes();
  if (needed <= available) return;
  throw Error{ErrorKind::usage,
              fmt::format("configuration: needs {} for {} batches of {} positions; available are "
                          "{}; make phase.N.micro_batch_tokens smaller",
                          human_bytes(static_cast<double>(needed)), kPrefetchedBatches, positions,
                          human_bytes(static_cast<double>(available)))};
}

// A number of bytes in a file of the kernel's, or `fallback`.
Index read_bytes(const char* path, Index fallback) {
  std::ifstream file(path);
  Index value = 0;
  return file >> value ? value : fallback;
}

}  // namespace

Index RunMemory::total() const {
  Index sum = 0;
  for (const auto& [what, bytes] : table) sum += bytes;
  return sum;
}

RunMemory forecast_run(const TrainConfig& config) {
  check_positions(config);
  RunMemory memory;
  const Numerics numerics = numerics_of(config);
  WorkCount ignored;
  const Backend backend = make_count_backend(numerics, ignored);
  Arena run = Arena::dry("run"), saved = Arena::dry("saved"), scratch = Arena::dry("scratch");
  ParamSet params;
  Model model(config.model, params);
  params.bind_for_training(run, backend);
  model.bind(run, backend, max_positions(config));
  Optimizer optimizer(params, config.optimizer, backend, run);
  const Balancing balancing(config.model, balancing_biases(model), config.optimizer, run);
  const StepGradient gradient(model, params, backend, config.parallel.lanes, false, run, saved,
                              scratch);
  if (config.metrics.spike_z_score > 0) {
    const SpikeWatch watch(config.metrics.spike_z_score, largest_micro_batch(config), run);
  }
  const Backend counting = make_count_backend(numerics, memory.optimizer_work);
  const Gradients gradients(Tensor(nullptr, backend.stream(), Shape{params.flat_count()}));
  optimizer.step(counting, scratch, gradients, 1, 0, 1);
  const PassForecast pass = largest_pass(config, numerics);
  memory.micro_batch_work = pass.work;
  memory.run_bytes = run.peak();
  memory.saved_bytes = pass.saved_bytes;
  memory.scratch_bytes = std::max(pass.scratch_bytes, scratch.peak());
  memory.evaluation_bytes = Observer::evaluation_bytes(config);
  memory.sample_bytes = Observer::sample_bytes(config);
  memory.staging_bytes = saved_state_bytes(run.table());
  memory.feed_bytes = kPrefetchedBatches * kFeedBytesPerPosition * largest_micro_batch(config);

  Index named = 0;
  for (const auto& [name, bytes] : run.table()) {
    memory.table.emplace_back(name, bytes);
    named += bytes;
  }
  memory.table.emplace_back("other state", memory.run_bytes - named);
  memory.table.emplace_back("saved activations", memory.saved_bytes);
  memory.table.emplace_back("scratch", memory.scratch_bytes);
  memory.table.emplace_back("evaluation", memory.evaluation_bytes);
  memory.table.emplace_back("samples", memory.sample_bytes);
  memory.table.emplace_back("checkpoint snapshot", memory.staging_bytes);
  memory.table.emplace_back("prefetched batches", memory.feed_bytes);
  memory.table.emplace_back("program", resident_anonymous_bytes() + kWorkspaceBytes);
  return memory;
}

Index available_bytes() {
  Index available = std::numeric_limits<Index>::max();
  std::ifstream info("/proc/meminfo");
  std::string key, unit;
  Index value = 0;
  while (info >> key >> value) {
    if (key == "MemAvailable:") available = value * 1024;
    std::getline(info, unit);
  }
  const Index limit = read_bytes("/sys/fs/cgroup/memory.max", -1);
  if (limit >= 0) {
    const Index used = read_bytes("/sys/fs/cgroup/memory.current", 0);
    available = std::min(available, std::max<Index>(limit - used, 0));
  }
  return available;
}

void check_fits(const RunMemory& memory) {
  const Index available = available_bytes();
  if (memory.total() <= available) return;
  std::vector<std::pair<std::string, Index>> parts = memory.table;
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string list;
  for (std::size_t i = 0; i < parts.size() && i < 6; ++i) {
    list += fmt::format("{}{} {}", i == 0 ? "" : ", ", parts[i].first,
                        human_bytes(static_cast<double>(parts[i].second)));
  }
  throw Error{ErrorKind::usage,
              fmt::format("configuration: needs {}: {}, ...; available are {}; make the model or "
                          "phase.N.micro_batch_tokens smaller, or set run.recompute=blocks",
                          human_bytes(static_cast<double>(memory.total())), list,
                          human_bytes(static_cast<double>(available)))};
}

}  // namespace zaya
