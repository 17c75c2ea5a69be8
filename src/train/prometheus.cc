// SPDX-License-Identifier: Apache-2.0
#include "train/prometheus.h"

#include <fmt/core.h>

#include <cmath>

#include "base/clock.h"
#include "base/log.h"
#include "train/metric_fields.h"

namespace zaya {

namespace {

std::string number_text(double x) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", x);
}

void append(std::string_view name, std::string_view help, bool is_counter, double value,
            std::string& out) {
  out += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help,
                     is_counter ? "counter" : "gauge", number_text(value));
}

}  // namespace

std::string prometheus_text(const StepMetrics& metrics, double time_unix) {
  std::string out;
  for (const MetricField& field : metric_fields()) {
    const std::optional<double> value = field.value(metrics);
    if (value) append(field.metric, field.help, field.is_counter, *value, out);
  }
  append("zaya_last_step_timestamp_seconds", "Unix time at the end of the last step.", false,
         time_unix, out);
  return out;
}

std::unique_ptr<MetricsPage> MetricsPage::open(const MetricsOptions& options) {
  if (options.port < 0) return nullptr;
  return std::unique_ptr<MetricsPage>(new MetricsPage(options));
}

MetricsPage::MetricsPage(const MetricsOptions& options)
    : server_({options.address, static_cast<int>(options.port), "/metrics",
               "text/plain; version=0.0.4; charset=utf-8"}) {
  log_info(fmt::format("metrics at http://{}:{}/metrics", options.address, server_.port()));
}

void MetricsPage::show(const StepMetrics& metrics) {
  if (metrics.validation_loss) validation_loss_ = metrics.validation_loss;
  StepMetrics shown = metrics;
  shown.validation_loss = validation_loss_;
  server_.set_text(prometheus_text(shown, unix_seconds()));
}

}  // namespace zaya
