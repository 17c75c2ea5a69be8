// SPDX-License-Identifier: Apache-2.0
#include "train/spike.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace zaya {

namespace {

constexpr std::size_t kLevelLength = 16, kResidualsLength = 128;
static_assert(kLevelLength + kResidualsLength == LossWindow::kLength);
// A level needs so many losses, and a score so many residuals.
constexpr Index kFewestLosses = 8, kFewestResiduals = 32;
constexpr double kLeastDeviation = 0.005;   // as a share of the level
constexpr double kDeviationByMad = 1.4826;  // of a normal distribution

// Entry number `count` of a ring.
void push(std::vector<double>& ring, std::size_t length, Index count, double value) {
  if (ring.size() < length) {
    ring.push_back(value);
  } else {
    ring[static_cast<std::size_t>(count) % length] = value;
  }
}

// The upper median, 0 of nothing; changes the order.
double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

LossWindow::LossWindow() {
  losses_.reserve(kLevelLength);
  residuals_.reserve(kResidualsLength);
  sorting_.reserve(kResidualsLength);
}

void LossWindow::clear() {
  losses_.clear();
  residuals_.clear();
  num_losses_ = num_residuals_ = 0;
  level_ = expected_ = deviation_ = 0;
}

std::optional<double> LossWindow::add(double loss) {
  if (!std::isfinite(loss)) return std::nullopt;
  std::optional<double> z;
  if (num_residuals_ >= kFewestResiduals && deviation_ > 0) z = (loss - expected_) / deviation_;
  if (num_losses_ >= kFewestLosses) {
    push(residuals_, kResidualsLength, num_residuals_++, loss - level_);
  }
  push(losses_, kLevelLength, num_losses_++, loss);
  update();
  return z;
}

void LossWindow::update() {
  sorting_ = losses_;
  level_ = median(sorting_);
  sorting_ = residuals_;
  const double middle = median(sorting_);
  for (double& x : sorting_) x = std::abs(x - middle);
  expected_ = level_ + middle;
  deviation_ = std::max(kDeviationByMad * median(sorting_), kLeastDeviation * std::abs(level_));
}

SpikeWatch::SpikeWatch(double threshold, Index max_tokens, Arena& run) : threshold_(threshold) {
  const Arena::Scope scope(run, "log probabilities");
  logprobs_ = run.take(DType::f32, {max_tokens});
}

Tensor SpikeWatch::logprobs(Index num_tokens) { return logprobs_.slice(0, num_tokens); }

void SpikeWatch::add(const Batch& rows) {
  if (logprobs_.data() == nullptr) return;  // a dry run has none
  const auto logprobs = logprobs_.as<float, 1>();
  const double usual = window_.expected();
  for (const BatchDocument& document : rows.documents) {
    LossPart part{rows.samples[document.row], document.document};
    for (Index t = document.begin; t < document.end; ++t) {
      if (rows.targets[t] < 0) continue;
      ++part.num_targets;
      part.loss_sum -= static_cast<double>(logprobs[t]);
    }
    part.excess = part.loss_sum - static_cast<double>(part.num_targets) * usual;
    if (num_targets_ == 0 || part.excess > highest_.excess) highest_ = part;
    if (num_targets_ == 0 || part.excess < lowest_.excess) lowest_ = part;
    num_targets_ += part.num_targets;
  }
}

void SpikeWatch::begin_step() {
  highest_ = lowest_ = {};
  num_targets_ = 0;
}

std::optional<LossSpike> SpikeWatch::end_step(double loss) {
  LossSpike spike;
  spike.expected = window_.expected();
  spike.deviation = window_.deviation();
  spike.loss = loss;
  spike.num_targets = num_targets_;
  const std::optional<double> z = window_.add(loss);
  spike.z_score = z.value_or(0);
  spike.part = spike.z_score > 0 ? highest_ : lowest_;
  begin_step();
  if (std::abs(spike.z_score) < threshold_ || spike.num_targets == 0) return std::nullopt;
  return spike;
}

void SpikeWatch::remember(std::span<const double> losses) {
  for (const double loss : losses) static_cast<void>(window_.add(loss));
}

std::string describe(const LossSpike& spike, const std::string& source) {
  const LossPart& part = spike.part;
  const double all = static_cast<double>(spike.num_targets) * (spike.loss - spike.expected);
  return fmt::format(
      "loss {:.4f} is {:.1f} deviations {} what the steps before lead to, {:.4f} +- {:.4f}; "
      "document {} of {} makes {:.0f} % of the difference with a loss of {:.4f} over {} tokens",
      spike.loss, std::abs(spike.z_score), spike.z_score > 0 ? "above" : "below", spike.expected,
      spike.deviation, part.document, source, 100 * part.excess / all,
      part.loss_sum / static_cast<double>(std::max<Index>(part.num_targets, 1)), part.num_targets);
}

}  // namespace zaya
