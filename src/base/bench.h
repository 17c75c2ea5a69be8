// SPDX-License-Identifier: Apache-2.0
//
// Measuring by repetition. Two things are compared by calling them in turn within one run, so that
// a busy neighbour disturbs both; medians are compared, and the spread is shown.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/json.h"
#include "base/types.h"

namespace zaya {

// Seconds per call.
struct Timing {
  double median = 0;
  double low = 0, high = 0;  // quartiles
  Index calls = 0;

  double spread() const { return median > 0 ? (high - low) / median : 0; }
};

// The quartiles of some durations; at least one.
Timing summarize(std::vector<double> seconds);

// Calls each body once to warm up, then all in turn until `seconds` have passed since the start and
// each was called at least `min_calls` times.
std::vector<Timing> time_alternately(std::span<const FunctionRef<void()>> bodies, double seconds,
                                     Index min_calls = 3);

// One line of a table: a figure, and what it is compared with.
struct BenchRow {
  std::string name;
  double value = 0;     // in `unit`
  std::string unit;     // "GFLOP/s", "GB/s", "tokens/s", "s"
  double spread = 0;    // between quartiles, as a share of the median
  double share = 0;     // of the ceiling; 0: there is none
  std::string ceiling;  // "best product 401 GFLOP/s"
  double target = 0;    // least share wanted; 0: none
};

// What was measured on: processor, threads, instruction set, commit and so on, by name.
struct BenchReport {
  std::vector<std::pair<std::string, std::string>> machine;
  std::vector<BenchRow> rows;

  std::string to_text() const;
  Json to_json() const;
};

// Name of the processor as the kernel gives it.
std::string processor_name();
// Bytes of this process' anonymous memory that are resident now.
Index resident_anonymous_bytes();

}  // namespace zaya
