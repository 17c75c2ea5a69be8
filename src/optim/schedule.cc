// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace zaya {

ScheduleShape parse_schedule_shape(std::string_view name) {
  if (name == "cosine") return ScheduleShape::cosine;
  if (name == "linear") return ScheduleShape::linear;
  if (name == "constant") return ScheduleShape::constant;
  throw Error{ErrorKind::usage,
              fmt::format("schedule {} is unknown; use cosine, linear or constant", name)};
}

double learning_rate_at(const Schedule& schedule, Index tokens) {
  if (tokens < schedule.warmup_tokens) {
    const double share = static_cast<double>(std::max<Index>(tokens, 0)) /
                         static_cast<double>(schedule.warmup_tokens);
    return schedule.peak * share;
  }
  const Index length = schedule.tokens - schedule.warmup_tokens;
  if (schedule.shape == ScheduleShape::constant || length <= 0) return schedule.peak;
  const double progress = std::clamp(
      static_cast<double>(tokens - schedule.warmup_tokens) / static_cast<double>(length), 0.0, 1.0);
  const double height = schedule.shape == ScheduleShape::cosine
                            ? 0.5 * (1 + std::cos(std::numbers::pi * progress))
                            : 1 - progress;
  return schedule.peak * (schedule.final_fraction + (1 - schedule.final_fraction) * height);
}

}  // namespace zaya
