// SPDX-License-Identifier: Apache-2.0
#include "train/start.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/reader.h"
#include "data/shard.h"
#include "text/tokenizer.h"
#include "train/tensorboard.h"

namespace zaya {

Numerics numerics_of(const TrainConfig& config) { return run_numerics(config.run.numerics); }

std::string tokenizer_digest(const TrainConfig& config) {
  if (config.data.tokenizer.empty()) {
    for (const std::string& prefix : config.data.train) {
      const std::optional<ShardInfo> info = read_shard_info(prefix);
      if (info && !info->tokenizer_digest.empty()) return info->tokenizer_digest;
    }
    return "";
  }
  return digest_text(Tokenizer::digest_of_file(config.data.tokenizer));
}

Index held_out_length(const TrainConfig& config) {
  Index longest = 0;
  for (const PhaseOptions& phase : config.phases) {
    longest = std::max(longest, phase.sequence_length);
  }
  return longest;
}

Index micro_batch_tokens(const PhaseOptions& phase, const ParallelOptions& parallel) {
  return phase.micro_batch_tokens > 0 ? phase.micro_batch_tokens
                                      : phase.batch_tokens / parallel.lanes;
}

Index largest_micro_batch(const TrainConfig& config) {
  Index most = 0;
  for (const PhaseOptions& phase : config.phases) {
    most = std::max(most, micro_batch_tokens(phase, config.parallel));
  }
  return most;
}

Schedule schedule_of(const PhaseOptions& phase, const OptimizerConfig& optimizer) {
  Schedule schedule;
  schedule.peak = phase.learning_rate > 0 ? phase.learning_rate : optimizer.learning_rate;
  schedule.final_fraction = phase.final_learning_rate_fraction;
  schedule.warmup_tokens = phase.warmup_tokens;
  schedule.tokens = phase.tokens;
  schedule.shape = parse_schedule_shape(phase.schedule);
  return schedule;
}

Index max_positions(const TrainConfig& config) {
  const Index sample =
      std::min(config.model.max_position_embeddings, config.metrics.sample_tokens + 256);
  return std::max(sample, held_out_length(config));
}

namespace {

void copy_if_new(const std::string& from, const std::string& to) {
  if (is_file(from) && !is_file(to)) write_file_atomically(to, read_file(from));
}

}  // namespace

void prepare_folder(const RunFolder& folder, const TrainConfig& config, const std::string& start,
                    const ResumeChoice& resume) {
  if (start.empty() && resume.kind == ResumeChoice::Kind::never && config.run.overwrite) {
    remove_all(folder.checkpoints());
    remove_all(folder.metrics());
    remove_all(folder.log());
    if (is_directory(folder.path)) {
      for (const std::string& name : list_directory(folder.path)) {
        if (is_event_file(name)) remove_all(join_path(folder.path, name));
      }
    }
  }
  make_directories(folder.checkpoints());
  // The tokenizer travels with the run, so that its folder is a model by itself.
  if (!config.data.tokenizer.empty()) {
    copy_if_new(config.data.tokenizer, folder.path + "/tokenizer.json");
    copy_if_new(directory_name(config.data.tokenizer) + "/tokenizer_config.json",
                folder.path + "/tokenizer_config.json");
  }
  // Nothing changes when a finished or unchanged run starts again.
  const std::string text = to_toml(config);
  if (!is_file(folder.config()) || read_file(folder.config()) != text) {
    write_file_atomically(folder.config(), text);
  }
}

void set_aside_newer(const RunFolder& folder, Index step) {
  for (const Index newer : list_steps(folder.checkpoints())) {
    if (newer <= step) continue;
    const std::string name = step_name(newer);
    const std::string aside = join_path(folder.checkpoints(), "set-aside-" + name);
    remove_all(aside);
    rename_durably(join_path(folder.checkpoints(), name), aside);
    log_warning(
        fmt::format("{} is later than the step to continue from; it is now {}", name, aside));
  }
}

namespace {

// The values that keys have when nobody sets them.
Json default_keys(const Json& keys) {
  TrainConfig config;
  Index num_phases = 0;
  while (keys.find(fmt::format("phase.{}.tokens", num_phases)) != nullptr) ++num_phases;
  config.phases.resize(static_cast<std::size_t>(num_phases));
  return mathematical_keys(config);
}

}  // namespace

void check_same_keys(const Json& saved, const Json& keys, const std::string& where,
                     bool accepts_changes) {
  const auto report = [&](const std::string& change) {
    if (!accepts_changes) {
      throw Error{ErrorKind::usage,
                  fmt::format("{}: {}; set it back, start another run.directory, or give "
                              "--accept-changes",
                              where, change)};
    }
    log_warning("accepted: " + change);
  };
  const Json defaults = default_keys(keys);
  for (const auto& [key, value] : keys.members()) {
    const Json* before = saved.find(key);
    // A checkpoint older than the option: its default is what was done then.
    const Json* usual = defaults.find(key);
    if (before == nullptr && usual != nullptr && *usual == value) continue;
    const std::string was = before == nullptr ? "absent" : before->dump();
    if (was != value.dump()) {
      report(fmt::format("{} was {} and is now {}", key, was, value.dump()));
    }
  }
  for (const auto& [key, value] : saved.members()) {
    if (keys.find(key) == nullptr)
      report(fmt::format("{} was {} and is now absent", key, value.dump()));
  }
}

double measure_peak_flops(const Backend& backend, Arena& scratch) {
  const Rewind rewind(scratch);
  constexpr Index kSize = 1024;
  const Index needed = 3 * kSize * kSize * 4;
  if (scratch.is_dry() || scratch.capacity() - scratch.used() < needed) return 0;
  const Tensor x = scratch.take(backend.compute(), {kSize, kSize});
  const Tensor w = scratch.take(backend.compute(), {kSize, kSize});
  const Tensor y = scratch.take(backend.compute(), {kSize, kSize});
  backend.move->zero(x);
  backend.move->zero(w);
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const double began = monotonic_seconds();
    backend.gemm->forward(x, w, ConstTensor{}, y);
    const double seconds = monotonic_seconds() - began;
    best = std::max(best, 2.0 * kSize * kSize * kSize / seconds);
  }
  return best;
}

}  // namespace zaya
