// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.h"

#include <doctest/doctest.h>

#include <map>
#include <vector>

#include "base/error.h"

namespace zaya {

namespace {

Schedule cosine() { return {4e-3, 0.05, 1000, 11000, ScheduleShape::cosine}; }

// The learning rates of the steps of a run, by the tokens that each step ends at.
std::map<Index, double> rates(const Schedule& schedule, const std::vector<Index>& step_tokens) {
  std::map<Index, double> out;
  Index tokens = 0;
  for (const Index count : step_tokens) {
    tokens += count;
    out[tokens] = learning_rate_at(schedule, tokens);
  }
  return out;
}

}  // namespace

TEST_CASE("the warm-up is linear from zero and meets the peak") {
  CHECK(learning_rate_at(cosine(), 0) == 0);
  CHECK(learning_rate_at(cosine(), 250) == doctest::Approx(1e-3));
  CHECK(learning_rate_at(cosine(), 1000) == 4e-3);
}

TEST_CASE("shapes pass their known points and end at the final fraction") {
  Schedule schedule = cosine();
  CHECK(learning_rate_at(schedule, 6000) == doctest::Approx(4e-3 * 0.525));
  CHECK(learning_rate_at(schedule, 3500) == doctest::Approx(4e-3 * (0.05 + 0.95 * 0.8535533906)));
  CHECK(learning_rate_at(schedule, 11000) == doctest::Approx(2e-4));
  schedule.shape = ScheduleShape::linear;
  CHECK(learning_rate_at(schedule, 3500) == doctest::Approx(4e-3 * (0.05 + 0.95 * 0.75)));
  CHECK(learning_rate_at(schedule, 11000) == doctest::Approx(2e-4));
  schedule.shape = ScheduleShape::constant;
  CHECK(learning_rate_at(schedule, 10999) == 4e-3);
}

TEST_CASE("beyond its end a schedule stays at the final rate and never rises again") {
  for (const ScheduleShape shape : {ScheduleShape::cosine, ScheduleShape::linear}) {
    Schedule schedule = cosine();
    schedule.shape = shape;
    double before = learning_rate_at(schedule, schedule.warmup_tokens);
    for (Index tokens = schedule.warmup_tokens; tokens < 40000; tokens += 100) {
      const double rate = learning_rate_at(schedule, tokens);
      CHECK(rate <= before);
      before = rate;
    }
    CHECK(before == learning_rate_at(schedule, schedule.tokens));
  }
}

TEST_CASE("equal tokens give equal rates whatever the sizes of the steps were") {
  const auto small = rates(cosine(), std::vector<Index>(20, 500));
  const auto ramped = rates(cosine(), {500, 500, 1000, 1000, 2000, 5000});
  for (const auto& [tokens, rate] : ramped) CHECK(small.at(tokens) == rate);
}

TEST_CASE("a run that stops early has the first rates of the full run") {
  const auto full = rates(cosine(), std::vector<Index>(20, 500));
  const auto stopped = rates(cosine(), std::vector<Index>(7, 500));
  for (const auto& [tokens, rate] : stopped) CHECK(full.at(tokens) == rate);
}

TEST_CASE("a phase without warm-up starts at the peak, one of nothing but warm-up ends there") {
  Schedule schedule = cosine();
  schedule.warmup_tokens = 0;
  CHECK(learning_rate_at(schedule, 0) == 4e-3);
  schedule.warmup_tokens = schedule.tokens;
  CHECK(learning_rate_at(schedule, schedule.tokens / 2) == doctest::Approx(2e-3));
  CHECK(learning_rate_at(schedule, schedule.tokens) == 4e-3);
}

TEST_CASE("tokens of a published phase do not lose the rate to rounding") {
  const Schedule schedule{6e-4, 1.0 / 3, 33554432000, 8000000000000, ScheduleShape::cosine};
  CHECK(learning_rate_at(schedule, 8000000000000) == doctest::Approx(2e-4));
  CHECK(learning_rate_at(schedule, 4000000000000) > learning_rate_at(schedule, 4000016777216));
}

TEST_CASE("names of shapes are parsed and others refused") {
  CHECK(parse_schedule_shape("cosine") == ScheduleShape::cosine);
  CHECK(parse_schedule_shape("linear") == ScheduleShape::linear);
  CHECK(parse_schedule_shape("constant") == ScheduleShape::constant);
  CHECK_THROWS_AS(parse_schedule_shape("cosin"), Error);
}

}  // namespace zaya
