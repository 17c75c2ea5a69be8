// SPDX-License-Identifier: Apache-2.0
//
// What `zaya train --plan` prints: memory by part, parameter groups, work and a time estimate.
#pragma once

#include <string>

#include "train/config.h"

namespace zaya {

// A text table, or JSON. Allocates nothing of the run's size.
std::string train_plan(const TrainConfig& config, bool is_json);

}  // namespace zaya
