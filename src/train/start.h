// SPDX-License-Identifier: Apache-2.0
//
// What happens before the first step: the run folder is prepared, a checkpoint is checked against
// the configuration, sizes are derived.
#pragma once

#include <string>

#include "backend/backend.h"
#include "base/json.h"
#include "optim/schedule.h"
#include "tensor/arena.h"
#include "train/config.h"
#include "train/run_folder.h"

namespace zaya {

Numerics numerics_of(const TrainConfig& config);
// Digest of data.tokenizer as side files of token files write it; without a tokenizer that of the
// training files, "" when no side file says.
std::string tokenizer_digest(const TrainConfig& config);
// Length of held-out rows: that of the longest phase.
Index held_out_length(const TrainConfig& config);
// Positions of one micro-batch of a phase, and of the largest one of the run.
Index micro_batch_tokens(const PhaseOptions& phase, const ParallelOptions& parallel);
Index largest_micro_batch(const TrainConfig& config);
Schedule schedule_of(const PhaseOptions& phase, const OptimizerConfig& optimizer);
// Longest row of any pass of the run: training, evaluation or samples.
Index max_positions(const TrainConfig& config);

// Creates the folder (after emptying it for an overwrite) and writes config.toml.
void prepare_folder(const RunFolder& folder, const TrainConfig& config, const std::string& start,
                    const ResumeChoice& resume);

// A run that goes back to an earlier step keeps the later checkpoints under another name, so that
// nothing continues from them by itself.
void set_aside_newer(const RunFolder& folder, Index step);

// Compares the mathematical keys of a checkpoint with those of the configuration. Error{usage}
// naming the first difference, unless it is accepted: then each one is logged.
void check_same_keys(const Json& saved, const Json& keys, const std::string& where,
                     bool accepts_changes);

// FLOP/s of a large product with the backend's compute type, the denominator of peak_fraction.
double measure_peak_flops(const Backend& backend, Arena& scratch);

}  // namespace zaya
