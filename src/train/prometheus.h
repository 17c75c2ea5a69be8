// SPDX-License-Identifier: Apache-2.0
//
// The figures of the last step in Prometheus' text form, and the page that shows them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/page_server.h"
#include "train/config.h"
#include "train/metrics.h"

namespace zaya {

// One metric after the other, each with HELP and TYPE; figures that are not known are left out.
// `time_unix` is when the step ended.
std::string prometheus_text(const StepMetrics& metrics, double time_unix);

// Serves GET /metrics for as long as it lives. Training only hands it texts.
class MetricsPage {
 public:
  // Nothing when metrics.port says so. Error{usage} when the port can't be had.
  static std::unique_ptr<MetricsPage> open(const MetricsOptions& options);
  void show(const StepMetrics& metrics);

 private:
  explicit MetricsPage(const MetricsOptions& options);

  PageServer server_;
  std::optional<double> validation_loss_;  // when it was last measured
};

}  // namespace zaya
