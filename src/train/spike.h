// SPDX-License-Identifier: Apache-2.0
//
// Leaps of the loss. A step whose loss is far from those of the steps before it is named, together
// with the document that moved it most.
//
//   level      the median of the last 16 losses: it follows a loss that falls
//   residual   loss - level
//   z          (residual - median) / max(1.4826 MAD, 0.5 % of level)
//
// with the median and the median absolute deviation of the last 128 residuals (the modified z-score
// of Iglewicz and Hoaglin, 1993): leaps that come again do not hide each other, and a loss that
// stays at a new level soon counts as usual. A document moves the loss by the sum over its targets
// of (-log p - level).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batch.h"
#include "tensor/arena.h"

namespace zaya {

// What recent losses make of the next one.
class LossWindow {
 public:
  // Steps that the scores depend on.
  static constexpr Index kLength = 128 + 16;

  LossWindow();

  // The z-score of `loss`, which then enters the window; none while the window is young (40
  // losses). A loss that is not finite has none and does not enter.
  std::optional<double> add(double loss);
  void clear();
  // What the next loss is expected to be, and the unit of its score; 0 while there are none.
  double expected() const { return expected_; }
  double deviation() const { return deviation_; }

 private:
  void update();

  std::vector<double> losses_;                // at most 16, a ring
  std::vector<double> residuals_;             // at most 128, a ring
  std::vector<double> sorting_;               // room for medians
  Index num_losses_ = 0, num_residuals_ = 0;  // so far
  double level_ = 0, expected_ = 0, deviation_ = 0;
};

// A document's part in the loss of one step. Rows that share a document have a part each.
struct LossPart {
  Sample sample;       // the row
  Index document = 0;  // of the row's source
  Index num_targets = 0;
  double loss_sum = 0;  // over these targets
  double excess = 0;    // loss_sum - num_targets * expected
};

struct LossSpike {
  double z_score = 0;
  double loss = 0;
  double expected = 0, deviation = 0;  // by the steps before
  Index num_targets = 0;               // of the step
  LossPart part;                       // what moved the loss most in that direction
};

class SpikeWatch {
 public:
  // Takes the room for `max_tokens` log-probabilities from `run`. A threshold of 0 is no watch:
  // the caller makes none.
  SpikeWatch(double threshold, Index max_tokens, Arena& run);

  // Where the pass writes log p of each target, [num_tokens] f32.
  Tensor logprobs(Index num_tokens);
  // The pass over these rows is done, and logprobs() of as many tokens holds its values.
  void add(const Batch& rows);
  // The step is over; what stands out, if anything. `loss` is its mean.
  std::optional<LossSpike> end_step(double loss);
  // The losses of an earlier part of the run come first, oldest first.
  void remember(std::span<const double> losses);
  // What comes now is other data: nothing is known about its loss.
  void clear() { window_.clear(); }

 private:
  void begin_step();

  double threshold_;
  Tensor logprobs_;  // [max_tokens] f32
  LossWindow window_;
  LossPart highest_, lowest_;  // of the step so far
  Index num_targets_ = 0;
};

// "loss 7.1 is 12.3 deviations above ...; document 4 of SOURCE makes 80 % of ...", without the
// step.
std::string describe(const LossSpike& spike, const std::string& source);

}  // namespace zaya
