// SPDX-License-Identifier: Apache-2.0
//
// Time: a monotonic clock for durations, the wall clock for time stamps.
#pragma once

#include <string>

namespace zaya {

double monotonic_seconds();
double unix_seconds();

// "47 s", "3 min 20 s", "2 h 05 min", "4 d 3 h".
std::string human_duration(double seconds);
// "812 B", "3.4 MiB", "41.2 GiB".
std::string human_bytes(double bytes);
// "812", "18.2 k", "3.40 M", "1.20 G".
std::string human_count(double count);

}  // namespace zaya
