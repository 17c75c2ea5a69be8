// SPDX-License-Identifier: Apache-2.0
#include "train/spike.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/file.h"
#include "data/testing.h"
#include "train/metrics.h"

namespace zaya {

namespace {

constexpr double kThreshold = 6;

// A loss that falls as in training, with noise: 2 + 7 / (1 + step / 20) +- about 0.05.
double usual_loss(Index step) {
  const double noise = std::sin(12.9898 * static_cast<double>(step)) * 0.07;
  return 2 + 7 / (1 + static_cast<double>(step) / 20) + noise;
}

double score(LossWindow& window, double loss) { return std::abs(window.add(loss).value_or(0)); }

// Two rows of one source, four positions each: documents 5 and 6, then 6 and 9.
Batch two_rows() {
  Batch batch;
  batch.rows = 2;
  batch.length = 4;
  batch.targets = {1, 2, -1, 4, 5, -1, 7, 8};
  batch.documents = {{0, 0, 3, 5}, {0, 3, 4, 6}, {1, 4, 6, 6}, {1, 6, 8, 9}};
  batch.samples = {{0, 0, 11}, {1, 0, 12}};
  return batch;
}

struct Watch {
  explicit Watch(double usual) {
    for (int i = 0; i < 50; ++i) watch.remember({&usual, 1});
  }
  std::optional<LossSpike> step(const std::vector<float>& logprobs, double loss) {
    const Tensor to = watch.logprobs(static_cast<Index>(logprobs.size()));
    std::copy(logprobs.begin(), logprobs.end(), to.as<float, 1>().data());
    watch.add(two_rows());
    return watch.end_step(loss);
  }
  Arena arena{"run", 4096};
  SpikeWatch watch{kThreshold, 8, arena};
};

}  // namespace

TEST_CASE("a loss that falls with noise never stands out, a leap does, again and again") {
  LossWindow window;
  Index found = 0;
  for (Index step = 1; step <= 1000; ++step) {
    CAPTURE(step);
    const bool is_leap = step >= 300 && step % 20 == 0;
    const double z = score(window, usual_loss(step) + (is_leap ? 2 : 0));
    CHECK((z >= kThreshold) == is_leap);
    found += z >= kThreshold ? 1 : 0;
  }
  CHECK(found == 36);
}

TEST_CASE("a loss that stays at its new level counts as usual soon") {
  LossWindow window;
  for (Index step = 400; step < 600; ++step) score(window, usual_loss(step));
  CHECK(score(window, usual_loss(600) + 1) > kThreshold);
  for (Index step = 601; step < 616; ++step) score(window, usual_loss(step) + 1);
  for (Index step = 616; step < 800; ++step) {
    CHECK(score(window, usual_loss(step) + 1) < kThreshold);
  }
}

TEST_CASE("young windows and losses that are not finite give no scores, equal ones have a unit") {
  LossWindow window;
  for (Index i = 0; i < 40; ++i) CHECK_FALSE(window.add(i == 9 ? 50.0 : 3.0));
  CHECK(window.add(3.0));
  window.clear();
  CHECK(window.expected() == 0);
  for (Index i = 0; i < 40; ++i) CHECK_FALSE(window.add(3));
  CHECK_FALSE(window.add(std::numeric_limits<double>::quiet_NaN()));
  CHECK_FALSE(window.add(std::numeric_limits<double>::infinity()));
  CHECK(window.expected() == 3);
  // Without any spread the unit is 0.5 % of the level.
  CHECK(score(window, 3.03) == doctest::Approx(2));
}

TEST_CASE("what moved the loss most is named with its row, up or down") {
  Watch watch(2.0);
  // Sums over targets: document 5: 4, 6: 2 in row 0 and 9 in row 1, 9: 3.
  const std::vector<float> logprobs = {-2, -2, 0, -2, -9, 0, -1, -2};
  const auto spike = watch.step(logprobs, 3.0);
  REQUIRE(spike);
  CHECK(spike->z_score == doctest::Approx(100));
  CHECK(spike->expected == 2);
  CHECK(spike->num_targets == 6);
  CHECK(spike->part.sample == Sample{1, 0, 12});
  CHECK(spike->part.document == 6);
  CHECK(spike->part.num_targets == 1);
  CHECK(spike->part.excess == doctest::Approx(7));
  CHECK(describe(*spike, "data/x") ==
        "loss 3.0000 is 100.0 deviations above what the steps before lead to, 2.0000 +- 0.0100; "
        "document 6 of data/x makes 117 % of the difference with a loss of 9.0000 over 1 tokens");

  // The next step is judged by itself.
  const auto low = watch.step({-2, -2, 0, -2, -2, 0, 0, 0}, 4.0 / 3);
  REQUIRE(low);
  CHECK(low->z_score < -kThreshold);
  CHECK(low->part.document == 9);
  CHECK(low->part.excess < -3.9);
  CHECK_FALSE(watch.step(logprobs, 2.0));
}

TEST_CASE("the history comes back from metrics.jsonl, of this phase only") {
  const TestFolder folder;
  const std::string path = folder / "metrics.jsonl";
  CHECK(last_losses(path, 0, 5).empty());
  {
    MetricsFile file(path, 0);
    for (Index step = 1; step <= 9; ++step) {
      StepMetrics m;
      m.step = step;
      m.phase = step <= 3 ? 0 : 1;
      m.loss = step == 6 ? std::numeric_limits<double>::quiet_NaN() : 1 / static_cast<double>(step);
      file.write(m);
    }
  }
  CHECK(last_losses(path, 1, 100) ==
        std::vector<double>{1 / 4.0, 1 / 5.0, 1 / 7.0, 1 / 8.0, 1 / 9.0});
  CHECK(last_losses(path, 1, 2) == std::vector<double>{1 / 8.0, 1 / 9.0});
  CHECK(last_losses(path, 0, 100).empty());
}

}  // namespace zaya
