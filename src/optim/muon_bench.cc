// SPDX-License-Identifier: Apache-2.0
#include "optim/muon_bench.h"

#include <fmt/core.h>

#include <algorithm>

#include "backend/bench/yardsticks.h"
#include "model/forecast.h"
#include "model/model.h"
#include "optim/optimizer.h"

namespace zaya {

namespace {

constexpr Index kBlocks = 2;
constexpr Index kStepTokens = 65536;

// FLOPs of one optimizer step with these options, symmetric products half.
double optimizer_flops(const ParamSet& params, const OptimizerConfig& options, Numerics numerics) {
  WorkCount count;
  const Backend counting = make_count_backend(numerics, count);
  Arena run = Arena::dry("run"), scratch = Arena::dry("scratch");
  Optimizer optimizer(params, options, counting, run);
  const Gradients gradients(Tensor(nullptr, counting.stream(), Shape{params.flat_count()}));
  optimizer.step(counting, scratch, gradients, 1, 0, 1);
  return count.product_flops;
}

// A Newton-Schulz step as plain products, for comparison with symmetric ones: 6 n n m becomes
// 2 n n m (x x^T) + 2 n n n (A A) + 2 n n m.
double plain_flops(const ParamSet& params, Index steps) {
  double sum = 0;
  for (const Param& param : params.all()) {
    if (param.rule.role != OptimizerRole::muon) continue;
    const int rank = param.shape.rank();
    const double matrices = rank == 3 ? static_cast<double>(param.shape[0]) : 1;
    const double a = static_cast<double>(param.shape[rank - 2]);
    const double b = static_cast<double>(param.shape[rank - 1]);
    const double n = std::min(a, b), m = std::max(a, b);
    sum += matrices * static_cast<double>(steps) * (4 * n * n * m + 2 * n * n * n);
  }
  return sum;
}

double step_flops_of_model(const ModelConfig& config, Numerics numerics) {
  const PassShape shape{.rows = 4, .length = 1024, .has_gradients = true};
  return forecast_pass(config, numerics, shape).work.product_flops * kStepTokens / 4096;
}

}  // namespace

std::vector<BenchRow> bench_muon(const ModelConfig& whole, const Backend& backend, ThreadPool& pool,
                                 double seconds) {
  ModelConfig config = whole;
  config.num_hidden_layers = std::min(kBlocks, whole.num_hidden_layers);
  config.layer_types.clear();
  ParamSet params;
  const Model model(config, params);
  BenchMemory memory(backend);
  params.bind_for_training(memory.arena(), backend);
  params.initialize(1, &pool);
  params.refresh_copies(backend);
  OptimizerConfig options;
  Optimizer optimizer(params, options, backend, memory.arena());
  const Gradients gradients(memory.values(backend.stream(), {params.flat_count()}));
  Arena scratch("scratch", Index{1} << 32);
  ProductYardstick yardstick(backend);
  Index update = 0;
  const auto step = [&] { optimizer.step(backend, scratch, gradients, 1, 1e-4, ++update); };
  const auto product = [&] { yardstick.run(); };
  const FunctionRef<void()> bodies[] = {product, step, product};
  const std::vector<Timing> t = time_alternately(bodies, 3 * seconds);
  Timing around = t[0];
  around.median = (t[0].median + t[2].median) / 2;
  const double flops = optimizer_flops(params, options, backend.numerics);
  const double blocks =
      static_cast<double>(whole.num_hidden_layers) / static_cast<double>(config.num_hidden_layers);
  BenchRow row =
      compare({fmt::format("Muon step, {} blocks of {}", config.num_hidden_layers, whole.preset),
               "GFLOP/s", "best product", flops, yardstick.flops(), 0.8},
              t[1], around);
  std::vector<BenchRow> rows{row};
  const double model_flops = step_flops_of_model(whole, backend.numerics);
  const auto share_row = [&](const std::string& name, double one_step_flops) {
    BenchRow r;
    r.name = name;
    r.value = 100 * one_step_flops * blocks / (one_step_flops * blocks + model_flops);
    r.unit = "% of FLOPs";
    rows.push_back(r);
  };
  share_row("Muon in a step of 65,536 tokens", flops);
  share_row("  without symmetric products", plain_flops(params, options.muon_steps));
  OptimizerConfig fewer = options;
  fewer.muon_steps = 4;
  share_row("  with 4 iterations", optimizer_flops(params, fewer, backend.numerics));
  return rows;
}

}  // namespace zaya
