// SPDX-License-Identifier: Apache-2.0
//
// A training run: start or resume, steps, evaluation, metrics, checkpoints, orderly stop.
#pragma once

#include <functional>
#include <string>

#include "model/params.h"
#include "train/config.h"
#include "train/run_folder.h"

namespace zaya {

struct TrainRequest {
  TrainConfig config;
  ResumeChoice resume;
  // Keys that change the mathematics may differ from the checkpoint's: they are logged.
  bool accepts_changes = false;
  // Fills masters from the folder model.from; set when that key is.
  std::function<void(const std::string& folder, ParamSet& params)> load_weights;
};

// How a run ended, for main's exit code.
struct TrainOutcome {
  int stop_signal = 0;       // SIGTERM or SIGINT: saved, exit 128 + signal
  bool is_complete = false;  // all phases done
};

// Runs until the phases are done, run.stop_after_steps, or a stop signal. Throws Error: numerics
// after too many skipped steps, hardware when the last checkpoint can't be saved, ...
TrainOutcome train(const TrainRequest& request);

}  // namespace zaya
