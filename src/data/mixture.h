// SPDX-License-Identifier: Apache-2.0
//
// Which of several sources gives sample number k, so that each source has its share at every
// moment.
//
// With shares w_i that add up to one, after k samples source i has given x_i(k) of them with
// |x_i(k) - k w_i| < 1, for all i and k (R. Tijdeman, "The chairman assignment problem", 1980): of
// the sources that are due the one with the nearest deadline is next. The x_i add up to k exactly.
#pragma once

#include <memory>
#include <vector>

#include "base/types.h"

namespace zaya {

class Mixture {
 public:
  // Weights are not negative and not all zero; a source of weight 0 gives nothing. They are rounded
  // to shares of 2^-40.
  explicit Mixture(const std::vector<double>& weights);
  ~Mixture();

  struct Pick {
    int source = 0;
    Index number = 0;  // how many samples the source has given before
  };
  // A pure function of (weights, k). States on the way are remembered so that calls with growing k
  // cost one step each; the first call walks from 0 (some 10 ns a sample and source). Thread-safe.
  Pick at(Index k) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zaya
