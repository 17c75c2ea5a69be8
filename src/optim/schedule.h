// SPDX-License-Identifier: Apache-2.0
//
// The learning rate of a phase as a pure function of the tokens trained on. There is no state, and
// neither the size of steps nor the point where a run stops enters.
#pragma once

#include <string_view>

#include "base/types.h"

namespace zaya {

enum class ScheduleShape { cosine, linear, constant };

// "cosine", "linear" or "constant"; Error{usage} for another name.
ScheduleShape parse_schedule_shape(std::string_view name);

struct Schedule {
  double peak = 0;
  double final_fraction = 0.1;  // learning rate at the end as a share of the peak
  Index warmup_tokens = 0;
  Index tokens = 0;  // length of the phase, warm-up included
  ScheduleShape shape = ScheduleShape::cosine;
};

// Rises linearly from 0 to the peak over the first warmup_tokens, then follows the shape down to
// peak * final_fraction at `tokens`, and stays there. A step that trains on tokens (t0, t1] uses
// t1, so that the first step moves and the last one has the final rate.
double learning_rate_at(const Schedule& schedule, Index tokens);

}  // namespace zaya
