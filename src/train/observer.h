// SPDX-License-Identifier: Apache-2.0
//
// Looks at a run without touching it: held-out loss, a printed sample, the live line. Uses memory
// of its own and no random state, so training is the same with and without it.
#pragma once

#include <memory>
#include <optional>

#include "train/config.h"
#include "train/metrics.h"
#include "train/state.h"

namespace zaya {

class Model;
struct Backend;

class Observer {
 public:
  // Opens the held-out set; takes memory when first needed.
  Observer(const TrainConfig& config, const Model& model, const Backend& backend);
  ~Observer();

  // Mean loss over the whole held-out set (or its first metrics.validation_tokens); none when the
  // configuration names no held-out set, or when a stop was asked for meanwhile.
  std::optional<double> validation_loss();
  // Logs a continuation of metrics.sample_prompt.
  void print_sample();
  // Live line on a terminal: progress, loss, rate, time left.
  void show_progress(const TrainState& state, const StepMetrics& metrics);

  // Bytes that evaluation and samples take at most.
  static Index evaluation_bytes(const TrainConfig& config);
  static Index sample_bytes(const TrainConfig& config);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zaya
