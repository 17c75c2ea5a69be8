// SPDX-License-Identifier: Apache-2.0
//
// The configuration of a training run: sections [run] [model] [data] [optimizer] [[phase]]
// [parallel] [checkpoint] [metrics] of a TOML file, overridden from the command line.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/fields.h"
#include "model/config.h"
#include "optim/config.h"

namespace zaya {

struct RunOptions {
  std::string directory;
  Index seed = 1;
  std::string numerics = "bf16";
  Index threads = 0;
  std::string instruction_set = "auto";
  std::string recompute = "none";
  Index stop_after_steps = 0;
  Index max_skipped_steps = 10;
  bool overwrite = false;
  std::string fault_point;
};

struct ModelSource {
  std::string from;  // a folder to take shape and weights from
};

struct DataOptions {
  std::string tokenizer;
  std::vector<std::string> train, validation;
  std::vector<double> weights;
  bool document_isolation = true;
  std::string order = "shuffled";
  std::vector<double> split;
};

struct PhaseOptions {
  Index tokens = 0;
  Index sequence_length = 512;
  Index batch_tokens = 8192;
  Index micro_batch_tokens = 0;
  double learning_rate = 0;
  Index warmup_tokens = 0;
  std::string schedule = "cosine";
  double final_learning_rate_fraction = 0.1;
};

struct ParallelOptions {
  Index lanes = 1;
};

struct CheckpointOptions {
  Index every_steps = 100;
  Index keep = 2;
  Index keep_every_steps = 0;
};

struct MetricsOptions {
  Index print_every_steps = 1;
  Index validate_every_steps = 100;
  Index validation_tokens = 0;
  Index sample_every_steps = 0;
  std::string sample_prompt;
  Index sample_tokens = 64;
  double spike_z_score = 6;
  bool tensorboard = false;
  Index port = -1;
  std::string address = "127.0.0.1";
};

struct TrainConfig {
  RunOptions run;
  ModelSource source;
  ModelConfig model;
  DataOptions data;
  OptimizerConfig optimizer;
  std::vector<PhaseOptions> phases;
  ParallelOptions parallel;
  CheckpointOptions checkpoint;
  MetricsOptions metrics;
};

// Reads `path` and then the overrides ("section.key=value"; a phase is addressed by its number:
// "phase.0.tokens=200000"). A model preset or a model.from folder is applied by the caller before
// the file's own model keys: `shape_of` maps a folder to the shape of its model.
using ShapeOfFolder = ModelConfig (*)(const std::string& folder);
TrainConfig read_train_config(const std::string& path, std::span<const std::string> overrides,
                              ShapeOfFolder shape_of);

// Checks what can be checked without data. Error{usage} names key and rule.
void check_train_config(const TrainConfig& config);

// All sections with every value written out, as TOML.
std::string to_toml(TrainConfig config);
// The keys that change the mathematics of a run, as {"section.key": value}.
Json mathematical_keys(TrainConfig config);
// The reference page of all options (docs/config.md).
std::string options_as_markdown();

}  // namespace zaya
