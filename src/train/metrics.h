// SPDX-License-Identifier: Apache-2.0
//
// metrics.jsonl: one line per step for programs, and the same numbers as a line on stderr.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/types.h"

namespace zaya {

// One step's figures; names with units as in metrics.jsonl.
struct StepMetrics {
  Index step = 0;        // from 1
  Index tokens = 0;      // targets trained on so far, this step included
  double loss = 0;       // mean over the step's targets, before the update
  double grad_norm = 0;  // of the mean loss, before clipping
  double learning_rate = 0;
  Index batch_tokens = 0;  // targets of this step
  Index sequence_length = 0;
  double step_seconds = 0;
  double tokens_per_second = 0;
  double flops_per_second = 0;
  std::optional<double> peak_fraction;  // of the measured peak of this machine's products
  double expert_load_entropy = 0;       // H(f) / ln E, mean over layers
  double expert_load_max = 0;           // largest load over the mean load, worst layer
  Index skipped_tokens = 0;             // targets of skipped steps so far
  bool is_skipped = false;              // loss or gradient was not finite, nothing was updated
  double data_seconds = 0;              // waiting for data
  double checkpoint_seconds = 0;        // blocked by saving
  Index phase = 0;
  std::optional<double> validation_loss;
};

// Appends lines. Every line is handed to the system at once; a full disk is reported once and
// training goes on.
class MetricsFile {
 public:
  // Cuts off a torn last line and all lines of steps after `last_step`, then appends. Lines whose
  // step is not in order are an Error{damaged} naming the line.
  MetricsFile(std::string path, Index last_step);
  void write(const StepMetrics& metrics);

 private:
  std::string path_;
  std::unique_ptr<FileWriter> writer_;  // null after a failure
};

// "step 120 loss 3.214 grad_norm 0.81 learning_rate 6.0e-4 ...".
std::string to_line(const StepMetrics& metrics);
// Step of the last whole line of a metrics file, 0 when there is none.
Index last_metrics_step(const std::string& path);
// Losses of the last steps of a metrics file that belong to `phase`, at most `count` of them,
// oldest first; without steps that were skipped or had no target.
std::vector<double> last_losses(const std::string& path, Index phase, Index count);

}  // namespace zaya
