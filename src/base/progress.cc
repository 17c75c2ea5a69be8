// SPDX-License-Identifier: Apache-2.0
#include "base/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace zaya {

namespace {

constexpr double kQuietSeconds = 2;
constexpr double kTerminalInterval = 0.2;
constexpr double kPlainInterval = 10;

}  // namespace

Progress::Progress(std::string what, Unit unit, double total)
    : what_(std::move(what)),
      unit_(unit),
      total_(total),
      start_(monotonic_seconds()),
      next_(start_ + kQuietSeconds) {}

Progress::~Progress() { set_status_line(""); }

void Progress::update(double done) {
  const double now = monotonic_seconds();
  if (now < next_) return;
  next_ = now + (stderr_is_terminal() ? kTerminalInterval : kPlainInterval);
  if (stderr_is_terminal()) {
    set_status_line(text(done, now));
  } else {
    log_info(text(done, now));
  }
}

std::string Progress::text(double done, double now) const {
  const auto amount = [&](double x) {
    return unit_ == Unit::bytes ? human_bytes(x) : human_count(x);
  };
  const double rate = done / std::max(now - start_, 1e-9);
  std::string line = fmt::format("{}: {}", what_, amount(done));
  if (total_ > 0) {
    line += fmt::format(" of {} ({:.0f} %)", amount(total_), 100 * std::min(1.0, done / total_));
  }
  line += fmt::format(", {}/s", amount(rate));
  if (total_ > 0 && rate > 0) {
    line += fmt::format(", {} left", human_duration(std::max(0.0, total_ - done) / rate));
  }
  return line;
}

}  // namespace zaya
