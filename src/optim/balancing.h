// SPDX-License-Identifier: Apache-2.0
//
// The controller that evens out the loads of experts by moving the routers' balancing biases
// (ZAYA1-8B report, eq. 5: AdamW on the load error), and the measure of how even they are.
//
//   f_e = tokens of expert e / tokens of all experts, over all tokens of a step;   g_e = f_e - 1/E
//   r  <- r exp(adaptation cos(g, m))             one rate per block, m as the step before left it
//   m_e = b1 m_e + (1 - b1) g_e;   v_e = b2 v_e + (1 - b2) g_e^2
//   u_e = (m_e / c1) / (sqrt(v_e / c2) + eps / E);   b_e -= r (u_e - mean u)
//
// A bias competes with the spread of the router's probabilities over tokens, which is 0.001 or less
// in a fresh router and above 0.1 in a trained one. A fixed rate far above the spread throws all
// tokens to and fro between experts; far below, it takes hundreds of steps. So each block's rate
// follows the errors: it grows while successive errors agree and shrinks while they turn around.
// eps makes the controller proportional near balance, where a plain AdamW keeps moving by its rate.
// Taking out the mean moves no token between experts, and keeps the distance to the skip class,
// which by default is outside all this: its bias stays, its tokens are not counted.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"
#include "model/params.h"
#include "optim/config.h"
#include "tensor/named_tensor.h"

namespace zaya {

class Model;

// Tokens per block and class of one step, [L][E+1], skip last.
using ExpertLoads = std::vector<std::vector<std::int64_t>>;

// The balancing biases of all blocks, in order. They belong to the model's ParamSet.
std::vector<Param*> balancing_biases(const Model& model);

class Balancing {
 public:
  // Takes its state from `run`. The biases [E+1] are bound for training (f32) and outlive this
  // object.
  Balancing(const ModelConfig& model, std::vector<Param*> biases, const OptimizerConfig& config,
            Arena& run);

  // Update number `update`, from 1, by the loads of one whole step. A block without a token on any
  // expert stays as it is. Allocates nothing.
  void step(const ExpertLoads& loads, Index update);

  // "balancing.first_moment" [L, E+1], "balancing.second_moment" [L, E+1], "balancing.rate" [L],
  // all f32. The biases themselves are parameters.
  std::vector<NamedTensor> state() const;

  // Rates in force, per block.
  ConstTensor rates() const { return rate_; }

 private:
  void step_block(Index block, const std::vector<std::int64_t>& loads, Index update);
  // Moves the block's rate by the agreement of error_ with the first moment, and returns it.
  double adapted_rate(Index block);

  OptimizerConfig config_;
  Index classes_;  // under control: E, or E + 1 with the skip class
  std::vector<Param*> biases_;
  Tensor first_, second_, rate_;
  std::vector<double> error_, direction_;  // scratch of one block
};

struct LoadBalance {
  // Entropy of the experts' loads over ln E, averaged over blocks; 1 = perfectly even.
  double entropy = 1;
  // Largest load of an expert over the even load, in the worst block.
  double max_over_mean = 1;
};
// Over experts only; blocks without a token on any expert are left out.
LoadBalance load_balance(const ExpertLoads& loads);

}  // namespace zaya
