// SPDX-License-Identifier: Apache-2.0
#include "train/step_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "backend/bench/yardsticks.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/profile.h"
#include "base/rng.h"
#include "data/shard_writer.h"
#include "optim/balancing.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "train/feed.h"
#include "train/memory.h"
#include "train/start.h"
#include "train/step.h"

namespace zaya {

namespace {

constexpr Index kDocuments = 400, kDocumentTokens = 1000;
constexpr double kRate = 1e-4;

// Ids that follow Zipf's law roughly: exp of a uniform logarithm.
void write_tokens(const std::string& prefix, Index vocabulary) {
  const Rng rng(1, "tokens");
  ShardWriter writer(prefix, TokenType::i32);
  std::vector<std::int32_t> document(kDocumentTokens);
  std::uint64_t counter = 0;
  for (Index d = 0; d < kDocuments; ++d) {
    for (std::int32_t& id : document) {
      const double most = static_cast<double>(vocabulary);
      id = static_cast<std::int32_t>(std::pow(most, rng.uniform(counter++))) - 1;
    }
    writer.add_sequence(document);
    writer.end_document();
  }
  writer.finish({});
  publish_shard(prefix);
}

TrainConfig config_of(const StepBenchOptions& o, const std::string& prefix, int threads) {
  const bool is_s1 = o.preset == "s1";
  TrainConfig c;
  c.run.directory = "bench";
  c.run.numerics = o.numerics;
  c.run.threads = threads;
  c.run.instruction_set = o.instruction_set;
  c.model = model_preset(o.preset);
  c.data.train = {prefix};
  c.data.document_isolation = false;  // every position sees its whole row, as the FLOPs count
  c.optimizer.kind = o.optimizer.empty() ? (is_s1 ? "adamw" : "muon") : o.optimizer;
  PhaseOptions phase;
  phase.sequence_length = o.sequence_length > 0 ? o.sequence_length : is_s1 ? 512 : 1024;
  phase.batch_tokens = o.batch_tokens > 0 ? o.batch_tokens : is_s1 ? 2048 : 16384;
  phase.micro_batch_tokens =
      o.micro_batch_tokens > 0 ? o.micro_batch_tokens : std::min<Index>(phase.batch_tokens, 4096);
  phase.tokens = Index{1} << 40;
  c.phases = {phase};
  c.checkpoint.every_steps = 0;
  return c;
}

// What Trainer does in a step, without metrics, checkpoints and held-out data.
class StepBench {
 public:
  StepBench(const TrainConfig& config, const RunMemory& memory, const Backend& backend,
            ThreadPool& pool);
  void step(Profile* profile);

 private:
  const TrainConfig& config_;
  const Backend& backend_;
  Arena run_, saved_, scratch_;
  ParamSet params_;
  Model model_;
  Feed feed_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Balancing> balancing_;
  std::unique_ptr<StepGradient> gradient_;
  Index update_ = 0;
};

StepBench::StepBench(const TrainConfig& config, const RunMemory& memory, const Backend& backend,
                     ThreadPool& pool)
    : config_(config),
      backend_(backend),
      run_("run", memory.run_bytes),
      saved_("activations", memory.saved_bytes),
      scratch_("scratch", memory.scratch_bytes),
      model_(config.model, params_),
      feed_(config) {
  params_.bind_for_training(run_, backend);
  model_.bind(run_, backend, max_positions(config));
  optimizer_ = std::make_unique<Optimizer>(params_, config.optimizer, backend, run_);
  balancing_ =
      std::make_unique<Balancing>(config.model, balancing_biases(model_), config.optimizer, run_);
  gradient_ =
      std::make_unique<StepGradient>(model_, params_, backend, config.parallel.lanes,
                                     config.run.recompute == "blocks", run_, saved_, scratch_);
  params_.initialize(1, &pool);
  model_.reset_balancing();
  params_.refresh_copies(backend);
  feed_.begin(0, 0);
}

void StepBench::step(Profile* profile) {
  gradient_->set_profile(profile);
  const PhaseOptions& phase = config_.phases[0];
  const Index micro_batches = phase.batch_tokens / micro_batch_tokens(phase, config_.parallel);
  const StepResult result =
      gradient_->run(micro_batches, [&]() -> const MicroBatch& { return feed_.next(); });
  const double count = static_cast<double>(result.num_targets);
  double norm = 0;
  {
    const Profile::Scope timed(profile, "gradient norm");
    norm = gradient_norm(backend_, result.gradient, 1 / count).value_or(0);
  }
  if (!(norm > 0)) throw Error{ErrorKind::numerics, "bench step: the gradient is not finite"};
  const double factor = clip_factor(norm, config_.optimizer.gradient_clip) / count;
  optimizer_->step(backend_, scratch_, Gradients(result.gradient), factor, kRate, ++update_,
                   profile);
  const Profile::Scope timed(profile, "balancing");
  balancing_->step(gradient_->loads(), update_);
}

void profile_steps(StepBench& bench, double seconds, StepBenchResult& result) {
  Profile profile;
  const double began = monotonic_seconds();
  profile.start();
  do bench.step(&profile);
  while (monotonic_seconds() - began < seconds);
  profile.stop();
  const double took = monotonic_seconds() - began;
  double sum = 0;
  for (const Profile::Part& part : profile.parts()) {
    sum += part.seconds;
    const std::string name = part.detail.empty() ? std::string(part.name)
                                                 : fmt::format("{}, {}", part.name, part.detail);
    result.profile.emplace_back(name, part.seconds / took);
  }
  result.profile_sum = sum / took;
  std::sort(result.profile.begin(), result.profile.end(),
            [](const auto& a, const auto& b) { return a.second > b.second; });
}

}  // namespace

StepBenchResult bench_step(const StepBenchOptions& options, const std::string& folder,
                           ThreadPool& pool) {
  const std::string prefix = join_path(folder, "tokens");
  write_tokens(prefix, model_preset(options.preset).vocab_size);
  const TrainConfig config = config_of(options, prefix, pool.num_threads());
  check_train_config(config);
  const RunMemory memory = forecast_run(config);
  check_fits(memory);
  const Backend backend =
      make_cpu_backend(numerics_of(config), pool, parse_instruction_set(options.instruction_set));
  StepBenchResult result;
  StepBench bench(config, memory, backend, pool);
  bench.step(nullptr);
  result.resident_bytes = resident_anonymous_bytes();
  result.forecast_bytes =
      memory.total() - memory.staging_bytes - memory.sample_bytes - memory.evaluation_bytes;

  ProductYardstick yardstick(backend);
  const auto step = [&] { bench.step(nullptr); };
  const auto product = [&] { yardstick.run(); };
  const FunctionRef<void()> bodies[] = {product, step, product};
  const std::vector<Timing> t = time_alternately(bodies, options.seconds);
  Timing around = t[0];
  around.median = (t[0].median + t[2].median) / 2;

  const PhaseOptions& phase = config.phases[0];
  const double share = static_cast<double>(phase.batch_tokens) /
                       static_cast<double>(micro_batch_tokens(phase, config.parallel));
  const double flops =
      memory.micro_batch_work.product_flops * share + memory.optimizer_work.product_flops;
  const std::string name = fmt::format("step {} {} {}, {} tokens", options.preset,
                                       config.optimizer.kind, options.numerics, phase.batch_tokens);
  const double target = options.preset == "s1" ? 0.65 : options.preset == "s2" ? 0.75 : 0;
  result.rows.push_back(
      compare({name, "GFLOP/s", "best product", flops, yardstick.flops(), target}, t[1], around));
  BenchRow rate;
  rate.name = name + ": rate";
  rate.value = static_cast<double>(phase.batch_tokens) / t[1].median;
  rate.unit = "tokens/s";
  rate.spread = t[1].spread();
  result.rows.push_back(rate);
  BenchRow use;
  use.name = name + ": memory in use";
  use.value = static_cast<double>(result.resident_bytes) / (1 << 20);
  use.unit = "MiB";
  use.share =
      static_cast<double>(result.resident_bytes) / static_cast<double>(result.forecast_bytes);
  use.ceiling = fmt::format("forecast {}", human_bytes(static_cast<double>(result.forecast_bytes)));
  result.rows.push_back(use);
  profile_steps(bench, options.seconds / 2, result);
  return result;
}

}  // namespace zaya
