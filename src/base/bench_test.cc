// SPDX-License-Identifier: Apache-2.0
#include "base/bench.h"

#include <doctest/doctest.h>

#include <string>

namespace zaya {
namespace {

TEST_CASE("durations are summed up by their quartiles") {
  const Timing odd = summarize({5, 1, 3, 2, 4});
  CHECK(odd.median == 3);
  CHECK(odd.low == 2);
  CHECK(odd.high == 4);
  CHECK(odd.calls == 5);
  CHECK(summarize({1, 2}).median == 1.5);
  CHECK(summarize({7}).spread() == 0);
}

TEST_CASE("bodies are called in turn, equally often, after a warm-up each") {
  std::string order;
  const auto a = [&] { order += 'a'; };
  const auto b = [&] { order += 'b'; };
  const FunctionRef<void()> bodies[] = {a, b};
  const std::vector<Timing> timings = time_alternately(bodies, 0, 3);
  CHECK(order == "abababab");
  REQUIRE(timings.size() == 2);
  CHECK(timings[0].calls == 3);
}

TEST_CASE("a report says figure, share and target in text and JSON") {
  BenchReport report;
  report.machine = {{"processor", "abacus"}};
  report.rows.push_back({"add", 123.4, "GB/s", 0.01, 0.815, "copy 151 GB/s", 0.8});
  BenchRow plain;
  plain.name = "plain";
  plain.value = 0.5;
  plain.unit = "s";
  report.rows.push_back(plain);
  const std::string text = report.to_text();
  CHECK(text.find("processor: abacus") != std::string::npos);
  CHECK(text.find("123 GB/s") != std::string::npos);
  CHECK(text.find("81.5 %") != std::string::npos);
  CHECK(text.find("0.5000 s") != std::string::npos);
  const Json json = report.to_json();
  CHECK(json.at("machine").at("processor").as_string() == "abacus");
  const Json::Array& rows = json.at("rows").items();
  CHECK(rows[0].at("share").as_real() == 0.815);
  CHECK(rows[1].find("share") == nullptr);
}

TEST_CASE("the kernel tells the processor and the memory in use") {
  CHECK(!processor_name().empty());
  CHECK(resident_anonymous_bytes() > 0);
}

}  // namespace
}  // namespace zaya
