// SPDX-License-Identifier: Apache-2.0
#include "optim/config.h"

#include <fmt/core.h>

#include "base/error.h"

namespace zaya {

namespace {

constexpr double kLargestBeta = 0.9999999;

void list_adamw(OptimizerConfig& c, FieldList& f) {
  f.add("beta1", c.beta1, "AdamW: decay of the first moment.").range(0, kLargestBeta);
  f.add("beta2", c.beta2, "AdamW: decay of the second moment.").range(0, kLargestBeta);
  f.add("eps", c.eps, "AdamW: added to the root of the second moment.").range(1e-30, 1);
  f.add("adamw_learning_rate_scale", c.adamw_learning_rate_scale,
        "With kind = muon: learning rate of AdamW's parameters as a multiple of that of matrices.")
      .range(0, 1e4);
}

void list_muon(OptimizerConfig& c, FieldList& f) {
  f.add("muon_momentum", c.muon_momentum, "Muon: decay of the momentum; 0: none.")
      .range(0, kLargestBeta);
  f.add("muon_nesterov", c.muon_nesterov, "Muon: look one step ahead along the momentum.");
  f.add("muon_steps", c.muon_steps, "Muon: Newton-Schulz steps.").range(1, 100);
  f.add("muon_coefficients", c.muon_coefficients,
        "Muon: coefficients of the Newton-Schulz steps (see optim/newton_schulz.h).")
      .choices({"keller", "polar_express", "quintic"});
  f.add("muon_dtype", c.muon_dtype,
        "Muon: operands of the Newton-Schulz products; auto: as the model's products.")
      .choices({"auto", "f32", "bf16"});
  f.add("muon_scale", c.muon_scale,
        "Muon: root mean square of an update at learning rate 1; 0.2 is what AdamW has.")
      .range(0, 1e4);
}

void list_balancing(OptimizerConfig& c, FieldList& f) {
  f.add("balancing_rate", c.balancing_rate,
        "Balancing: largest move of a bias per step, in units of probability, at the start.")
      .range(0, 1);
  f.add("balancing_adaptation", c.balancing_adaptation,
        "Balancing: how fast each block's rate follows the agreement of successive errors; 0: the "
        "rate stays.")
      .range(0, 2);
  f.add("balancing_beta1", c.balancing_beta1, "Balancing: decay of the first moment.")
      .range(0, kLargestBeta);
  f.add("balancing_beta2", c.balancing_beta2, "Balancing: decay of the second moment.")
      .range(0, kLargestBeta);
  f.add("balancing_eps", c.balancing_eps,
        "Balancing: AdamW's eps as a multiple of the even load; errors far below it move biases in "
        "proportion, errors above it by the rate.")
      .range(1e-12, 1e6);
  f.add("balancing_includes_skip", c.balancing_includes_skip,
        "Balancing: also drive the skip class to an even load; off: its bias stays as it is.");
}

}  // namespace

FieldList list_fields(OptimizerConfig& c) {
  FieldList f;
  f.add("kind", c.kind, "muon: Muon for matrices, AdamW for the rest; adamw: AdamW for all.")
      .choices({"muon", "adamw"});
  f.add("learning_rate", c.learning_rate, "Peak learning rate, shared by Muon and AdamW.")
      .range(0, 100);
  f.add("weight_decay", c.weight_decay, "Decoupled decay, times the learning rate.").range(0, 100);
  f.add("decay_vectors", c.decay_vectors,
        "Decay every parameter; off: matrices and tables, but no norms, biases, scales.");
  f.add("gradient_clip", c.gradient_clip, "Largest global gradient norm; 0: no limit.")
      .range(0, 1e30);
  list_adamw(c, f);
  list_muon(c, f);
  list_balancing(c, f);
  return f;
}

void check_optimizer_config(const OptimizerConfig& config, Numerics numerics,
                            std::string_view where) {
  if (config.kind == "muon" && config.muon_dtype == "bf16" &&
      compute_dtype(numerics) != DType::bf16) {
    throw Error{ErrorKind::usage,
                fmt::format("{}: optimizer.muon_dtype = bf16 needs a run in bf16, this one is in "
                            "{}; use auto",
                            where, name_of(numerics))};
  }
}

}  // namespace zaya
