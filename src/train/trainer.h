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

// Runs until the phases are done, run.stop_after_steps, or a stop signal; returns the number of
// that signal, or 0. Everything is checked, the checkpoint to continue from and the data included,
// before anything in the run's folder changes. Throws Error: numerics after too many skipped steps,
// hardware when the last checkpoint can't be saved, ...
int train(const TrainRequest& request);

}  // namespace zaya
