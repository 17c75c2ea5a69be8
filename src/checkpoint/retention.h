// SPDX-License-Identifier: Apache-2.0
//
// Which checkpoints stay.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/types.h"

namespace zaya {

struct Retention {
  Index keep = 3;        // newest checkpoints to keep; 0: all
  Index keep_every = 0;  // also keep steps that are multiples of this; 0: none
};

// Of the complete checkpoints (steps ascending), those to remove after `published` was saved. Never
// the newest one, never the published one.
std::vector<Index> steps_to_prune(std::span<const Index> steps, Index published,
                                  const Retention& retention);

// Removes what steps_to_prune() says from a folder of step folders; returns the paths removed. Step
// folders that do not open are neither counted nor touched. A step folder is renamed to a .partial
// name before its files go, so no half-removed one is ever seen. Failures are logged as warnings.
std::vector<std::string> prune_checkpoints(const std::string& folder, Index published,
                                           const Retention& retention);

// Removes what dead saves left behind (step-*.partial), with one log line each.
void remove_leftovers(const std::string& folder);

}  // namespace zaya
