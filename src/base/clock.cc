// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <fmt/core.h>

#include <chrono>

namespace zaya {

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string human_duration(double seconds) {
  if (!(seconds >= 0)) return "unknown";
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  if (seconds > 3e9) return "very long";
  const long long s = static_cast<long long>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{} h {:02} min", s / 3600, s % 3600 / 60);
  return fmt::format("{} d {} h", s / 86400, s % 86400 / 3600);
}

std::string human_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 5) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string human_count(double count) {
  static constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P"};
  int unit = 0;
  while (count >= 1000 && unit < 5) {
    count /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f}", count);
  return fmt::format("{:.{}f}{}", count, count < 10 ? 2 : 1, kUnits[unit]);
}

}  // namespace zaya
