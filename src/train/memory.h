// SPDX-License-Identifier: Apache-2.0
//
// Bytes of a run before anything is allocated: the real constructors and a real pass on dry arenas.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "train/config.h"

namespace zaya {

struct RunMemory {
  Index run_bytes = 0;      // weights, gradients, optimizer state, rotary tables
  Index saved_bytes = 0;    // saved activations of one micro-batch
  Index scratch_bytes = 0;  // within a call
  Index evaluation_bytes = 0;
  Index sample_bytes = 0;
  Index staging_bytes = 0;  // snapshot of a checkpoint being written
  Index feed_bytes = 0;     // prefetched batches
  // Lines of the table: what, bytes; in the order of size classes, sums to total().
  std::vector<std::pair<std::string, Index>> table;
  // Work of one micro-batch of the first phase, and of one optimizer step.
  WorkCount micro_batch_work, optimizer_work;

  Index total() const;
};

RunMemory forecast_run(const TrainConfig& config);

// Bytes this process may use now: available memory of the system and limit of its control group.
Index available_bytes();

// Error{usage} with the arithmetic when the run does not fit.
void check_fits(const RunMemory& memory);

}  // namespace zaya
