// SPDX-License-Identifier: Apache-2.0
//
// Options of the optimizers and of the routers' balancing controller: section [optimizer].
#pragma once

#include <string>

#include "backend/numerics.h"
#include "base/fields.h"
#include "base/types.h"

namespace zaya {

struct OptimizerConfig {
  std::string kind = "muon";  // muon: Muon for matrices, AdamW for the rest; adamw: AdamW for all
  double learning_rate = 1e-3;
  double weight_decay = 0.1;
  bool decay_vectors = false;
  double gradient_clip = 1;

  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double adamw_learning_rate_scale = 1;

  double muon_momentum = 0.95;
  bool muon_nesterov = true;
  Index muon_steps = 5;
  std::string muon_coefficients = "keller";  // keller, polar_express, quintic
  std::string muon_dtype = "auto";           // auto: the compute type of the run; f32, bf16
  double muon_scale = 0.2;

  double balancing_rate = 1e-3;
  double balancing_adaptation = 0.2;
  double balancing_beta1 = 0.5, balancing_beta2 = 0.9, balancing_eps = 1;
  bool balancing_includes_skip = false;

  bool operator==(const OptimizerConfig&) const = default;
};

// The fields of section [optimizer].
FieldList list_fields(OptimizerConfig& config);

// Error{usage} when options and element types of the run do not fit each other. `where` begins the
// message.
void check_optimizer_config(const OptimizerConfig& config, Numerics numerics,
                            std::string_view where);

}  // namespace zaya
