// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/file.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/thread_pool.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "optim/balancing.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/feed.h"
#include "train/memory.h"
#include "train/metrics.h"
#include "train/observer.h"
#include "train/prometheus.h"
#include "train/spike.h"
#include "train/start.h"
#include "train/state.h"
#include "train/step.h"
#include "train/tensorboard.h"

namespace zaya {

namespace {

constexpr Index kDigestVersion = 1;
constexpr double kNoLimitSeconds = 1e8;

// Everything that lives as long as the run, in the order of construction.
class Trainer {
 public:
  // Builds and checks everything; changes nothing on the disk.
  Trainer(const TrainRequest& request, const RunFolder& folder, const std::string& start,
          ThreadPool& pool, const Backend& backend, const RunMemory& memory, MetricsPage* page);

  // Returns the signal that stopped the run, or 0.
  int run();

 private:
  void load(const std::string& start);
  void start_from_scratch();
  void open_folder();
  std::vector<NamedTensor> state_tensors();
  Json run_state() const;
  void save(bool is_last);
  void report_saves();
  bool do_step();
  bool apply(const StepResult& result, StepMetrics& metrics);
  void finish_metrics(const StepResult& result, double began, StepMetrics& metrics);
  void report_spike(const StepMetrics& metrics);
  void observe(StepMetrics& metrics);
  void advance_phase();
  bool is_done() const { return state_.phase >= static_cast<Index>(config_.phases.size()); }
  Index micro_batches(const PhaseOptions& phase) const;

  const TrainRequest& request_;
  const TrainConfig& config_;
  const RunFolder& folder_;
  const std::string& start_;
  ThreadPool& pool_;
  const Backend& backend_;
  const RunMemory& memory_;
  MetricsPage* page_;  // null when nobody asked for it
  Arena run_arena_, saved_, scratch_;
  ParamSet params_;
  Model model_;
  Feed feed_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Balancing> balancing_;
  std::unique_ptr<StepGradient> step_gradient_;
  std::unique_ptr<SpikeWatch> watch_;  // null when nobody asked for it
  std::unique_ptr<Observer> observer_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::unique_ptr<MetricsFile> metrics_file_;
  std::unique_ptr<EventFile> event_file_;  // null when nobody asked for it
  TrainState state_;
  Index saved_step_ = -1;
  double checkpoint_seconds_ = 0;
  double peak_flops_ = 0;
};

Trainer::Trainer(const TrainRequest& request, const RunFolder& folder, const std::string& start,
                 ThreadPool& pool, const Backend& backend, const RunMemory& memory,
                 MetricsPage* page)
    : request_(request),
      config_(request.config),
      folder_(folder),
      start_(start),
      pool_(pool),
      backend_(backend),
      memory_(memory),
      page_(page),
      run_arena_("run", memory.run_bytes),
      saved_("activations", memory.saved_bytes),
      scratch_("scratch", memory.scratch_bytes),
      model_(config_.model, params_),
      feed_(config_) {
  params_.bind_for_training(run_arena_, backend_);
  model_.bind(run_arena_, backend_, max_positions(config_));
  optimizer_ = std::make_unique<Optimizer>(params_, config_.optimizer, backend_, run_arena_);
  balancing_ = std::make_unique<Balancing>(config_.model, balancing_biases(model_),
                                           config_.optimizer, run_arena_);
  step_gradient_ = std::make_unique<StepGradient>(model_, params_, backend_, config_.parallel.lanes,
                                                  config_.run.recompute == "blocks", run_arena_,
                                                  saved_, scratch_);
  if (config_.metrics.spike_z_score > 0) {
    watch_ = std::make_unique<SpikeWatch>(config_.metrics.spike_z_score,
                                          largest_micro_batch(config_), run_arena_);
    step_gradient_->set_watch(watch_.get());
  }
  observer_ = std::make_unique<Observer>(config_, model_, backend_);
  if (start.empty()) {
    start_from_scratch();
  } else {
    load(start);
  }
}

// The first changes on the disk.
void Trainer::open_folder() {
  prepare_folder(folder_, config_, start_, request_.resume);
  set_log_file(folder_.log());
  log_info(fmt::format("{} on {} threads, {}; needs {}", folder_.path, pool_.num_threads(),
                       backend_.name, human_bytes(static_cast<double>(memory_.total()))));
  if (!start_.empty()) {
    log_info(fmt::format("continuing {} after step {} ({} tokens)", start_, state_.step,
                         human_count(static_cast<double>(state_.tokens))));
  }
  if (request_.resume.kind == ResumeChoice::Kind::path) set_aside_newer(folder_, state_.step);
  writer_ = std::make_unique<CheckpointWriter>(
      folder_.checkpoints(),
      Retention{config_.checkpoint.keep, config_.checkpoint.keep_every_steps}, pool_);
  metrics_file_ = std::make_unique<MetricsFile>(folder_.metrics(), state_.step);
  if (watch_) {
    watch_->remember(last_losses(folder_.metrics(), state_.phase, LossWindow::kLength));
  }
  if (config_.metrics.tensorboard) {
    event_file_ = std::make_unique<EventFile>(folder_.path, state_.step);
  }
}

void Trainer::start_from_scratch() {
  params_.initialize(static_cast<std::uint64_t>(config_.run.seed), &pool_);
  model_.reset_balancing();
  if (request_.load_weights) request_.load_weights(config_.source.from, params_);
  params_.refresh_copies(backend_);
}

std::vector<NamedTensor> Trainer::state_tensors() {
  std::vector<NamedTensor> tensors;
  for (const Param& param : params_.all()) tensors.push_back({param.name, param.master});
  for (const NamedTensor& tensor : optimizer_->state()) tensors.push_back(tensor);
  for (const NamedTensor& tensor : balancing_->state()) tensors.push_back(tensor);
  return tensors;
}

Json Trainer::run_state() const {
  Json out = Json::object();
  out.set("digest_version", kDigestVersion);
  out.set("train", state_.to_json());
  out.set("configuration", mathematical_keys(config_));
  out.set("data", feed_.fingerprint());
  return out;
}

void Trainer::load(const std::string& start) {
  const CheckpointReader reader(start);
  const Json& saved = reader.run_state();
  check_same_keys(saved.at("configuration"), mathematical_keys(config_), start,
                  request_.accepts_changes);
  const std::string& trained_on = saved.at("data").as_string();
  if (!request_.accepts_changes) {
    feed_.check_unchanged(trained_on);
  } else if (trained_on != feed_.fingerprint()) {
    log_warning("accepted: data.train is not the data that this run was trained on");
  }
  std::vector<CheckpointReader::Target> targets;
  for (const NamedTensor& state : state_tensors()) {
    // Every state tensor is a window on memory of this object.
    const ConstTensor& t = state.tensor;
    targets.push_back({state.name, Tensor(const_cast<std::byte*>(t.data()), t.dtype(), t.shape())});
  }
  reader.read_all(targets, pool_);
  params_.refresh_copies(backend_);
  state_ = TrainState::from_json(saved.at("train"));
  saved_step_ = state_.step;
}

void Trainer::report_saves() {
  for (const SaveResult& result : writer_->poll()) {
    if (result.is_ok) {
      log_info(fmt::format("checkpoint {} written in {:.1f} s", result.path, result.seconds));
    } else {
      log_error(
          fmt::format("checkpoint of step {} was not written: {}; training goes on, earlier "
                      "checkpoints are untouched",
                      result.step, result.message));
      // A later save of the same step tries again.
      if (result.step == saved_step_) saved_step_ = -1;
    }
  }
}

void Trainer::save(bool is_last) {
  // The step may be saved or being saved already; whether that worked is known once it ends.
  if (is_last) static_cast<void>(writer_->wait_for(kNoLimitSeconds));
  report_saves();
  if (saved_step_ != state_.step) {
    const double began = monotonic_seconds();
    writer_->save(state_.step, state_tensors(), run_state());
    saved_step_ = state_.step;
    checkpoint_seconds_ += monotonic_seconds() - began;
  }
  if (is_last) writer_->wait();
  report_saves();
}

Index Trainer::micro_batches(const PhaseOptions& phase) const {
  return phase.batch_tokens / micro_batch_tokens(phase, config_.parallel);
}

void Trainer::advance_phase() {
  while (!is_done() && state_.phase_tokens >= config_.phases[state_.phase].tokens) {
    ++state_.phase;
    state_.phase_tokens = state_.phase_samples = 0;
    if (!is_done()) feed_.begin(state_.phase, 0);
    if (watch_) watch_->clear();
  }
}

bool Trainer::apply(const StepResult& result, StepMetrics& m) {
  const double count = static_cast<double>(std::max<Index>(result.num_targets, 1));
  const std::optional<double> norm = gradient_norm(backend_, result.gradient, 1 / count);
  // Tests plant a loss that is not finite here.
  const double fault = fault_errno("train.loss") == 0 ? 0 : NAN;
  m.loss = result.loss_sum / count + fault;
  m.grad_norm = norm.value_or(NAN);
  m.learning_rate = learning_rate_at(schedule_of(config_.phases[state_.phase], config_.optimizer),
                                     state_.phase_tokens + result.num_targets);
  if (!std::isfinite(m.loss) || !norm) return false;
  const double factor = clip_factor(*norm, config_.optimizer.gradient_clip) / count;
  const Gradients gradients(result.gradient);
  optimizer_->step(backend_, scratch_, gradients, factor, m.learning_rate, state_.update + 1);
  balancing_->step(step_gradient_->loads(), state_.update + 1);
  return true;
}

void Trainer::finish_metrics(const StepResult& result, double began, StepMetrics& m) {
  const PhaseOptions& phase = config_.phases[state_.phase];
  m.step = state_.step;
  m.tokens = state_.tokens;
  m.skipped_tokens = state_.skipped_tokens;
  m.batch_tokens = result.num_targets;
  m.sequence_length = phase.sequence_length;
  m.phase = state_.phase;
  const LoadBalance balance = load_balance(step_gradient_->loads());
  m.expert_load_entropy = balance.entropy;
  m.expert_load_max = balance.max_over_mean;
  m.data_seconds = feed_.take_wait_seconds();
  m.checkpoint_seconds = std::exchange(checkpoint_seconds_, 0);
  m.step_seconds = monotonic_seconds() - began;
  m.tokens_per_second = static_cast<double>(result.num_targets) / m.step_seconds;
  const double share = static_cast<double>(micro_batch_tokens(phase, config_.parallel)) /
                       static_cast<double>(largest_micro_batch(config_));
  const double flops =
      memory_.micro_batch_work.product_flops * share * static_cast<double>(micro_batches(phase)) +
      memory_.optimizer_work.product_flops;
  m.flops_per_second = flops / m.step_seconds;
  if (peak_flops_ > 0) m.peak_fraction = m.flops_per_second / peak_flops_;
}

// Does one step; false when it was abandoned because a stop was asked for.
bool Trainer::do_step() {
  const double began = monotonic_seconds();
  const PhaseOptions& phase = config_.phases[state_.phase];
  const StepResult result = step_gradient_->run(
      micro_batches(phase), [&]() -> const MicroBatch& { return feed_.next(); });
  if (result.is_abandoned) return false;
  StepMetrics m;
  const bool has_targets = result.num_targets > 0;
  m.is_skipped = has_targets && !apply(result, m);
  ++state_.step;
  state_.phase_samples += phase.batch_tokens / phase.sequence_length;
  if (!has_targets) {
    m.loss = m.grad_norm = NAN;
    log_warning(fmt::format("step {}: none of its positions has a target; nothing was updated",
                            state_.step));
  } else if (m.is_skipped) {
    state_.skipped_tokens += result.num_targets;
    ++state_.skipped_in_a_row;
    log_warning(fmt::format(
        "step {}: loss {} or gradient norm {} is not finite; nothing was "
        "updated ({} skipped in a row; samples {})",
        state_.step, m.loss, m.grad_norm, state_.skipped_in_a_row, feed_.describe_last()));
  } else {
    ++state_.update;
    state_.skipped_in_a_row = 0;
    state_.tokens += result.num_targets;
    state_.phase_tokens += result.num_targets;
  }
  report_spike(m);
  fault_point("train.step");
  finish_metrics(result, began, m);
  advance_phase();
  observe(m);
  metrics_file_->write(m);
  if (event_file_) event_file_->write(m);
  if (page_ != nullptr) page_->show(m);
  if (m.is_skipped && state_.skipped_in_a_row >= config_.run.max_skipped_steps) {
    throw Error{ErrorKind::numerics,
                fmt::format("step {}: {} steps in a row were not finite; the last good checkpoint "
                            "is kept in {}; lower optimizer.learning_rate or look at the data",
                            state_.step, state_.skipped_in_a_row, folder_.checkpoints())};
  }
  return true;
}

void Trainer::report_spike(const StepMetrics& m) {
  if (!watch_) return;
  const std::optional<LossSpike> spike = watch_->end_step(m.loss);
  if (!spike) return;
  log_warning(fmt::format("step {}: {}", state_.step,
                          describe(*spike, config_.data.train[spike->part.sample.source])));
}

void Trainer::observe(StepMetrics& m) {
  const bool is_end = is_done() || state_.step == config_.run.stop_after_steps;
  const auto is_due = [&](Index every) { return every > 0 && state_.step % every == 0; };
  if ((is_due(config_.metrics.validate_every_steps) || is_end) && stop_signal() == 0) {
    m.validation_loss = observer_->validation_loss();
  }
  if (is_due(config_.metrics.print_every_steps) || is_end || m.validation_loss) {
    log_info(to_line(m));
  }
  observer_->show_progress(state_, m);
  if (is_due(config_.metrics.sample_every_steps) && stop_signal() == 0) observer_->print_sample();
}

int Trainer::run() {
  if (is_done()) {
    log_info(fmt::format("already complete: {} steps, {} tokens", state_.step, state_.tokens));
    return 0;
  }
  open_folder();
  peak_flops_ = measure_peak_flops(backend_, scratch_);
  feed_.begin(state_.phase, state_.phase_samples);
  if (start_.empty()) save(false);
  const Index stop_after = config_.run.stop_after_steps;
  while (!is_done() && stop_signal() == 0 && (stop_after == 0 || state_.step < stop_after)) {
    if (!do_step()) break;
    report_saves();
    const Index every = config_.checkpoint.every_steps;
    if (every > 0 && state_.step % every == 0 && state_.skipped_in_a_row == 0) save(false);
  }
  set_status_line("");
  const int signal = stop_signal();
  save(true);
  return signal;
}

}  // namespace

int train(const TrainRequest& request) {
  const TrainConfig& config = request.config;
  check_train_config(config);
  arm_fault_point(config.run.fault_point);
  const RunFolder folder{config.run.directory};
  const std::string start = find_start(folder, request.resume, config.run.overwrite);
  const RunMemory memory = forecast_run(config);
  check_fits(memory);
  const std::unique_ptr<MetricsPage> page = MetricsPage::open(config.metrics);
  ThreadPool pool(thread_count(config.run.threads));
  const Backend backend = make_cpu_backend(numerics_of(config), pool,
                                           parse_instruction_set(config.run.instruction_set));
  Trainer trainer(request, folder, start, pool, backend, memory, page.get());
  return trainer.run();
}

}  // namespace zaya
