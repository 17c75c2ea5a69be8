// SPDX-License-Identifier: Apache-2.0
//
// The figures of a step for programs that read series of numbers: one list of names and meanings
// for TensorBoard's tags and Prometheus' metrics.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "train/metrics.h"

namespace zaya {

struct MetricField {
  std::string_view name;    // as in metrics.jsonl
  std::string_view tag;     // in TensorBoard
  std::string_view metric;  // in Prometheus; names of counters end in _total
  std::string_view help;    // one line, with the unit
  bool is_counter;          // never falls during a run
  std::optional<double> (*value)(const StepMetrics& metrics);
};

// All figures, in the order of metrics.jsonl.
std::span<const MetricField> metric_fields();

}  // namespace zaya
