// SPDX-License-Identifier: Apache-2.0
//
// The gradient of one step: logical micro-batches in order within each lane, lanes by a fixed tree.
// The number of threads, and who computes a lane, change no bit.
#pragma once

#include <cstdint>
#include <vector>

#include "base/function_ref.h"
#include "data/batch.h"
#include "model/model.h"
#include "parallel/reduce_tree.h"
#include "train/spike.h"

namespace zaya {

// One micro-batch as the feed hands it out; valid until the next one is asked for.
struct MicroBatch {
  TokenBatch batch;
  Index num_targets = 0;
  const Batch* rows = nullptr;  // where its tokens come from; null: not known
};

struct StepResult {
  double loss_sum = 0;  // over all targets of the step, micro-batches in order
  Index num_targets = 0;
  bool is_abandoned = false;  // a stop was asked for between micro-batches; nothing else is valid
  Tensor gradient;            // flat, sum over targets; valid until the next step
};

class StepGradient {
 public:
  // Takes gradient buffers from `run`; saved and scratch are used during run() only.
  StepGradient(const Model& model, const ParamSet& params, const Backend& backend, Index lanes,
               bool recomputes, Arena& run, Arena& saved, Arena& scratch);

  // Asks for `num_micro_batches` (a multiple of the lanes) one by one.
  StepResult run(Index num_micro_batches, FunctionRef<const MicroBatch&()> next);

  // The next steps show their log-probabilities to `watch`; null: nobody.
  void set_watch(SpikeWatch* watch) { watch_ = watch; }
  // The next steps are charged to a profile; null: none.
  void set_profile(Profile* profile) { profile_ = profile; }

  // Tokens per block and class over the whole step, [L][E+1], skip last.
  const std::vector<std::vector<std::int64_t>>& loads() const { return loads_; }

 private:
  void add_loads();
  Tensor begin_lane();
  const MicroBatch& timed_next(FunctionRef<const MicroBatch&()> next);

  const Model& model_;
  const Backend& backend_;
  Index lanes_;
  bool recomputes_;
  SpikeWatch* watch_ = nullptr;
  Profile* profile_ = nullptr;
  Model::Activations activations_;
  Arena &saved_, &scratch_;
  std::vector<Gradients> gradients_;  // one per buffer of the tree
  LaneSum sum_;
  Tensor pass_loads_;  // [L, E+1] i64
  std::vector<std::vector<std::int64_t>> loads_;
};

}  // namespace zaya
