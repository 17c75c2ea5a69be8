// SPDX-License-Identifier: Apache-2.0
#include "optim/groups.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace zaya {

namespace {

ParamPlan plan_param(const Param& param, const OptimizerConfig& config) {
  ParamPlan plan{&param, param.rule.role, param.rule.decays, 0, 0, 0};
  if (plan.role == OptimizerRole::none) return plan;
  if (config.kind == "adamw") plan.role = OptimizerRole::adamw;
  if (config.decay_vectors) plan.decays = true;
  if (plan.role == OptimizerRole::muon) {
    const Shape& shape = param.shape;
    ZAYA_CHECK(shape.rank() == 2 || shape.rank() == 3, param.name + " " + to_string(shape));
    plan.matrices = shape.rank() == 3 ? shape[0] : 1;
    plan.rows = shape[shape.rank() - 2];
    plan.columns = shape.last();
  }
  return plan;
}

// The name with every component that is a number replaced by "*".
std::string kind_name(const std::string& name) {
  std::string out;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    const bool is_number =
        !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    if (begin > 0) out += '.';
    out += is_number ? "*" : part;
    begin = end + 1;
  }
  return out;
}

}  // namespace

std::vector<ParamPlan> plan_params(const ParamSet& params, const OptimizerConfig& config) {
  std::vector<ParamPlan> plans;
  for (const Param& param : params.all()) plans.push_back(plan_param(param, config));
  return plans;
}

std::vector<ParamKind> param_kinds(const ParamSet& params, const OptimizerConfig& config) {
  std::vector<ParamKind> kinds;
  for (const ParamPlan& plan : plan_params(params, config)) {
    const std::string name = kind_name(plan.param->name);
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const ParamKind& k) {
      return k.name == name && k.shape == plan.param->shape && k.role == plan.role &&
             k.decays == plan.decays;
    });
    if (kind == kinds.end()) {
      kinds.push_back({name, plan.param->shape, plan.role, plan.decays, plan.matrices, 0, 0});
      kind = kinds.end() - 1;
    }
    ++kind->count;
    kind->elements += plan.param->count();
  }
  return kinds;
}

std::string_view name_of(OptimizerRole role) {
  switch (role) {
    case OptimizerRole::muon: return "muon";
    case OptimizerRole::adamw: return "adamw";
    case OptimizerRole::none: return "none";
  }
  return "";
}

std::string kinds_as_text(const std::vector<ParamKind>& kinds) {
  std::size_t width = 10;
  for (const ParamKind& kind : kinds) width = std::max(width, kind.name.size());
  std::string out = fmt::format("{:<{}}  {:<20}  {:>5}  {:<5}  {:<5}  {:>15}\n", "parameter", width,
                                "shape", "count", "role", "decay", "elements");
  std::array<Index, 3> params{}, elements{};
  for (const ParamKind& kind : kinds) {
    out += fmt::format("{:<{}}  {:<20}  {:>5}  {:<5}  {:<5}  {:>15}\n", kind.name, width,
                       to_string(kind.shape), kind.count, name_of(kind.role),
                       kind.decays ? "yes" : "no", kind.elements);
    params[static_cast<std::size_t>(kind.role)] += kind.count;
    elements[static_cast<std::size_t>(kind.role)] += kind.elements;
  }
  for (const OptimizerRole role :
       {OptimizerRole::muon, OptimizerRole::adamw, OptimizerRole::none}) {
    const auto i = static_cast<std::size_t>(role);
    if (params[i] == 0) continue;
    out += fmt::format("{:<{}}  {:<20}  {:>5}  {:<5}  {:<5}  {:>15}\n", "total", width, "",
                       params[i], name_of(role), "", elements[i]);
  }
  return out;
}

}  // namespace zaya
