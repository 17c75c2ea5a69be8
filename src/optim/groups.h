// SPDX-License-Identifier: Apache-2.0
//
// Which optimizer moves which parameter: the role from its declaration, the options of the run, and
// nothing else.
#pragma once

#include <string>
#include <vector>

#include "model/params.h"
#include "optim/config.h"

namespace zaya {

// How one parameter is moved.
struct ParamPlan {
  const Param* param = nullptr;  // owned by the ParamSet
  OptimizerRole role = OptimizerRole::none;
  bool decays = false;
  // Muon: the parameter is `matrices` matrices [rows, columns], each orthogonalised by itself.
  Index matrices = 0, rows = 0, columns = 0;
};

// One entry per parameter, in the order of declaration.
std::vector<ParamPlan> plan_params(const ParamSet& params, const OptimizerConfig& config);

// Parameters that differ in their block number only: one line of the printed plan.
struct ParamKind {
  std::string name;  // "model.layers.*.mlp.experts.down_proj"
  Shape shape;
  OptimizerRole role = OptimizerRole::none;
  bool decays = false;
  Index matrices = 0;  // per parameter, as above
  Index count = 0;     // parameters of this kind
  Index elements = 0;  // of all of them
};

// Kinds in the order of their first parameters.
std::vector<ParamKind> param_kinds(const ParamSet& params, const OptimizerConfig& config);

std::string_view name_of(OptimizerRole role);

// The kinds as an aligned table with one total per role.
std::string kinds_as_text(const std::vector<ParamKind>& kinds);

}  // namespace zaya
