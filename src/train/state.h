// SPDX-License-Identifier: Apache-2.0
//
// Where a run is: everything besides tensors that the next step depends on. Saved in checkpoints;
// loading a state and saving it again gives the same text.
#pragma once

#include "base/json.h"
#include "base/types.h"

namespace zaya {

struct TrainState {
  Index step = 0;            // steps done, skipped ones included
  Index tokens = 0;          // targets trained on
  Index skipped_tokens = 0;  // targets of skipped steps
  Index skipped_in_a_row = 0;
  Index update = 0;         // optimizer updates done: steps that were not skipped
  Index phase = 0;          // number of the phase of the next step; all phases done: their count
  Index phase_tokens = 0;   // targets of this phase so far, the clock of its schedule
  Index phase_samples = 0;  // rows of this phase consumed so far, skipped steps included

  Json to_json() const;
  // Error{damaged} naming a missing member.
  static TrainState from_json(const Json& json);
  bool operator==(const TrainState&) const = default;
};

}  // namespace zaya
