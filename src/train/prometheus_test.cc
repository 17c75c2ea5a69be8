// SPDX-License-Identifier: Apache-2.0
#include "train/prometheus.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "train/metric_fields.h"

namespace zaya {

namespace {

StepMetrics some_metrics() {
  StepMetrics m;
  m.step = 120;
  m.tokens = 983040;
  m.loss = 3.25;
  m.grad_norm = NAN;
  m.learning_rate = 6e-4;
  m.peak_fraction = 0.5;
  m.flops_per_second = INFINITY;
  return m;
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("each figure has its help, its type and its value") {
  const std::string text = prometheus_text(some_metrics(), 1700000000.5);
  CHECK(
      text.starts_with("# HELP zaya_steps_total Steps done, skipped ones included.\n"
                       "# TYPE zaya_steps_total counter\n"
                       "zaya_steps_total 120\n"));
  CHECK(has_line(text, "# TYPE zaya_loss gauge"));
  CHECK(has_line(text, "zaya_loss 3.25"));
  CHECK(has_line(text, "zaya_learning_rate 0.0006"));
  CHECK(has_line(text, "zaya_grad_norm NaN"));
  CHECK(has_line(text, "zaya_flops_per_second +Inf"));
  CHECK(has_line(text, "zaya_last_step_timestamp_seconds 1700000000.5"));
  CHECK(text.find("zaya_validation_loss") == std::string::npos);
}

TEST_CASE("names of figures are unique, and counters alone end in _total") {
  std::set<std::string_view> names, tags, metrics;
  for (const MetricField& field : metric_fields()) {
    CHECK(names.insert(field.name).second);
    CHECK(tags.insert(field.tag).second);
    CHECK(metrics.insert(field.metric).second);
    CHECK(field.metric.ends_with("_total") == field.is_counter);
  }
}

TEST_CASE("promtool finds nothing to say about the text") {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) {
    MESSAGE("skipped: promtool (Debian package prometheus) is not installed");
    return;
  }
  StepMetrics m = some_metrics();
  m.validation_loss = 3.5;
  std::FILE* pipe = popen("promtool check metrics", "w");
  REQUIRE(pipe != nullptr);
  const std::string text = prometheus_text(m, 1700000000);
  CHECK(std::fwrite(text.data(), 1, text.size(), pipe) == text.size());
  CHECK(pclose(pipe) == 0);
}

}  // namespace zaya
