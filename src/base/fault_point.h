// SPDX-License-Identifier: Apache-2.0
//
// Named places where a test makes the process die or an operation fail. Disarmed (the default) a
// point costs one load. Armed through the configuration key run.fault_point, for tests only.
#pragma once

#include <string_view>

namespace zaya {

// Arms one point: "NAME=ACTION@COUNT". ACTION is kill (the process ends at once with status 137,
// nothing is flushed), enospc or eio (fault_errno returns that error from then on), eio_once (at
// that pass only), or sleep:MS (a delay at each pass). COUNT is the pass at which it acts, from 1
// (default 1). An empty text disarms. Throws Error{usage} when the text can't be understood.
void arm_fault_point(std::string_view text);

// Passes the point: kills or sleeps if armed so.
void fault_point(std::string_view name);

// Passes the point and returns the errno to pretend, or 0.
int fault_errno(std::string_view name);

}  // namespace zaya
