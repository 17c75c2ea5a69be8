// SPDX-License-Identifier: Apache-2.0
#include "base/bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/clock.h"

namespace zaya {

namespace {

// The value of `key` in a file of "key : value" lines; empty if there is none.
std::string value_in(const char* path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

std::string percent(double share) {
  return share > 0 ? fmt::format("{:.1f} %", 100 * share) : std::string();
}

}  // namespace

Timing summarize(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const std::size_t n = seconds.size();
  Timing timing;
  timing.median = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2;
  timing.low = seconds[(n - 1) / 4];
  timing.high = seconds[n - 1 - (n - 1) / 4];
  timing.calls = static_cast<Index>(n);
  return timing;
}

std::vector<Timing> time_alternately(std::span<const FunctionRef<void()>> bodies, double seconds,
                                     Index min_calls) {
  for (const FunctionRef<void()>& body : bodies) body();
  std::vector<std::vector<double>> taken(bodies.size());
  const double until = monotonic_seconds() + seconds;
  for (Index round = 0; round < min_calls || monotonic_seconds() < until; ++round) {
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      const double began = monotonic_seconds();
      bodies[i]();
      taken[i].push_back(monotonic_seconds() - began);
    }
  }
  std::vector<Timing> timings;
  for (std::vector<double>& one : taken) timings.push_back(summarize(std::move(one)));
  return timings;
}

std::string BenchReport::to_text() const {
  std::string text;
  for (const auto& [key, value] : machine) text += fmt::format("{}: {}\n", key, value);
  std::size_t name_width = 4, ceiling_width = 7;
  for (const BenchRow& row : rows) {
    name_width = std::max(name_width, row.name.size());
    ceiling_width = std::max(ceiling_width, row.ceiling.size());
  }
  text += fmt::format("\n{:<{}}  {:>20}  {:>7}  {:>8}  {:<{}}  {}\n", "what", name_width, "median",
                      "spread", "share", "of", ceiling_width, "wanted");
  for (const BenchRow& row : rows) {
    const int digits = row.value >= 100 ? 0 : row.value >= 1 ? 2 : 4;
    const std::string value = fmt::format("{:.{}f} {}", row.value, digits, row.unit);
    std::string line = fmt::format("{:<{}}  {:>20}  {:>7}  {:>8}  {:<{}}  {}", row.name, name_width,
                                   value, percent(row.spread), percent(row.share), row.ceiling,
                                   ceiling_width, percent(row.target));
    while (line.back() == ' ') line.pop_back();
    text += line;
    text += '\n';
  }
  return text;
}

Json BenchReport::to_json() const {
  Json where = Json::object();
  for (const auto& [key, value] : machine) where.set(key, value);
  Json lines = Json::array();
  for (const BenchRow& row : rows) {
    Json line = Json::object();
    line.set("name", row.name);
    line.set("value", row.value);
    line.set("unit", row.unit);
    line.set("spread", row.spread);
    if (row.share > 0) line.set("share", row.share);
    if (!row.ceiling.empty()) line.set("ceiling", row.ceiling);
    if (row.target > 0) line.set("wanted", row.target);
    lines.push(std::move(line));
  }
  Json out = Json::object();
  out.set("machine", std::move(where));
  out.set("rows", std::move(lines));
  return out;
}

std::string processor_name() {
  const std::string name = value_in("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown" : name;
}

Index resident_anonymous_bytes() {
  const std::string value = value_in("/proc/self/status", "RssAnon");
  return value.empty() ? 0 : Index{1024} * std::atoll(value.c_str());
}

}  // namespace zaya
