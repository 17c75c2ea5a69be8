// SPDX-License-Identifier: Apache-2.0
//
// Micro-batches of a run, prepared by a thread so that a step does not wait for the disk. Which
// rows a micro-batch holds is a pure function of (configuration, phase, row number).
#pragma once

#include <memory>
#include <string>

#include "train/config.h"
#include "train/step.h"

namespace zaya {

class Feed {
 public:
  // Opens and checks the token files: ids against the vocabulary, the tokenizer's digest against
  // the one that made them. Error{usage} or Error{damaged}.
  explicit Feed(const TrainConfig& config);
  ~Feed();

  // The next micro-batches come from `phase`, from its row number `first_row` on.
  void begin(Index phase, Index first_row);
  // Valid until the next call. Errors of the reading thread surface here.
  const MicroBatch& next();
  // Seconds spent waiting in next() since the last call of this.
  double take_wait_seconds();
  // Row numbers and sources of the micro-batch that next() handed out last, for traces.
  std::string describe_last() const;

  // Digest of everything that decides what a row number means; saved in checkpoints.
  std::string fingerprint() const;
  // Error{usage} with the choices when a checkpoint with that fingerprint would go on with other
  // data.
  void check_unchanged(const std::string& saved_fingerprint) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zaya
