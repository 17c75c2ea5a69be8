// SPDX-License-Identifier: Apache-2.0
#include "plan/train_plan.h"

#include <fmt/core.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "model/model.h"
#include "optim/groups.h"
#include "train/memory.h"
#include "train/start.h"

namespace zaya {

namespace {

struct Work {
  double flops_per_step = 0;   // of the first phase
  double optimizer_flops = 0;  // part of it
  double total_flops = 0;      // of all phases
};

Work work_of(const TrainConfig& config, const RunMemory& memory) {
  Work work;
  const double per_position =
      memory.micro_batch_work.product_flops / static_cast<double>(largest_micro_batch(config));
  work.optimizer_flops = memory.optimizer_work.product_flops;
  for (const PhaseOptions& phase : config.phases) {
    const double step =
        per_position * static_cast<double>(phase.batch_tokens) + work.optimizer_flops;
    if (work.flops_per_step == 0) work.flops_per_step = step;
    work.total_flops +=
        step * static_cast<double>(phase.tokens) / static_cast<double>(phase.batch_tokens);
  }
  return work;
}

// A short measurement of this machine's product speed, or 0.
double peak_flops(const TrainConfig& config) {
  ThreadPool pool(thread_count(config.run.threads));
  const Backend backend = make_cpu_backend(numerics_of(config), pool,
                                           parse_instruction_set(config.run.instruction_set));
  Arena scratch("measurement", Index{64} << 20);
  return measure_peak_flops(backend, scratch);
}

// Share of the measured product speed that a step usually reaches here (docs/bench.md).
constexpr double kTypicalShare = 0.6;

std::string text_plan(const TrainConfig& config, const ParamSet& params, const RunMemory& memory,
                      const Work& work, double peak) {
  std::string out = fmt::format("parameters  {} ({})\n\nmemory\n", params.num_parameters(),
                                human_count(static_cast<double>(params.num_parameters())));
  for (const auto& [what, bytes] : memory.table) {
    out += fmt::format("  {:<28} {:>12}\n", what, human_bytes(static_cast<double>(bytes)));
  }
  out += fmt::format("  {:<28} {:>12}\n  {:<28} {:>12}\n\n", "total",
                     human_bytes(static_cast<double>(memory.total())), "available now",
                     human_bytes(static_cast<double>(available_bytes())));
  out += "parameter groups\n" + kinds_as_text(param_kinds(params, config.optimizer)) + "\n";
  out += fmt::format("work\n  one step    {:.3g} TFLOP, {:.1f} % of it the optimizer's products\n",
                     work.flops_per_step / 1e12, 100 * work.optimizer_flops / work.flops_per_step);
  out += fmt::format("  whole run   {:.3g} TFLOP\n", work.total_flops / 1e12);
  if (peak > 0) {
    out += fmt::format("  time here   about {} ({:.0f} GFLOP/s measured, {:.0f} % of it assumed)\n",
                       human_duration(work.total_flops / (peak * kTypicalShare)), peak / 1e9,
                       100 * kTypicalShare);
  }
  return out;
}

Json json_plan(const TrainConfig& config, const ParamSet& params, const RunMemory& memory,
               const Work& work, double peak) {
  Json out = Json::object();
  out.set("parameters", params.num_parameters());
  Json table = Json::object();
  for (const auto& [what, bytes] : memory.table) table.set(what, bytes);
  out.set("memory_bytes", table);
  out.set("total_bytes", memory.total());
  out.set("available_bytes", available_bytes());
  Json groups = Json::array();
  for (const ParamKind& kind : param_kinds(params, config.optimizer)) {
    Json group = Json::object();
    group.set("name", kind.name);
    group.set("shape", to_string(kind.shape));
    group.set("role", name_of(kind.role));
    group.set("decays", kind.decays);
    group.set("count", kind.count);
    group.set("elements", kind.elements);
    groups.push(std::move(group));
  }
  out.set("groups", std::move(groups));
  out.set("flops_per_step", work.flops_per_step);
  out.set("optimizer_flops_per_step", work.optimizer_flops);
  out.set("total_flops", work.total_flops);
  if (peak > 0) {
    out.set("measured_flops_per_second", peak);
    out.set("estimated_seconds", work.total_flops / (peak * kTypicalShare));
  }
  return out;
}

}  // namespace

std::string train_plan(const TrainConfig& config, bool is_json) {
  check_train_config(config);
  ParamSet params;
  const Model model(config.model, params);
  const RunMemory memory = forecast_run(config);
  const Work work = work_of(config, memory);
  const double peak = peak_flops(config);
  if (is_json) return json_plan(config, params, memory, work, peak).dump(2) + "\n";
  return text_plan(config, params, memory, work, peak);
}

}  // namespace zaya
