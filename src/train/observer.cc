// SPDX-License-Identifier: Apache-2.0
#include "train/observer.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/stop.h"
#include "eval/generate.h"
#include "eval/held_out.h"
#include "text/tokenizer.h"
#include "train/start.h"

namespace zaya {

namespace {

// Printed on one line, so that logs stay one event a line.
std::string one_line(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\n' ? ' ' : c;
  return out;
}

HeldOutOptions held_out_options(const TrainConfig& config) {
  HeldOutOptions options;
  options.prefixes = config.data.validation;
  options.tokenizer_digest = tokenizer_digest(config);
  options.sequence_length = held_out_length(config);
  options.isolates_documents = config.data.document_isolation;
  options.max_tokens = config.metrics.validation_tokens;
  return options;
}

Index sample_capacity(const TrainConfig& config) {
  return std::min(config.model.max_position_embeddings, config.metrics.sample_tokens + 256);
}

}  // namespace

struct Observer::State {
  const TrainConfig& config;
  const Model& model;
  const Backend& backend;
  HeldOut held_out;
  std::unique_ptr<Evaluator> evaluator;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Generator> generator;
  double smoothed_rate = 0;  // tokens per second

  State(const TrainConfig& c, const Model& m, const Backend& b)
      : config(c), model(m), backend(b), held_out(held_out_options(c), c.model.vocab_size) {}
};

Observer::Observer(const TrainConfig& config, const Model& model, const Backend& backend)
    : state_(std::make_unique<State>(config, model, backend)) {}

Observer::~Observer() = default;

std::optional<double> Observer::validation_loss() {
  State& s = *state_;
  if (s.held_out.num_batches() == 0) return std::nullopt;
  if (!s.evaluator) {
    s.evaluator = std::make_unique<Evaluator>(s.model, s.backend,
                                              HeldOut::batch_tokens(held_out_length(s.config)),
                                              s.config.model.skip_output == "identity");
  }
  const std::optional<PerplexityResult> result = evaluate(s.held_out, *s.evaluator, nullptr);
  if (!result) return std::nullopt;
  return result->loss.mean();
}

void Observer::print_sample() {
  State& s = *state_;
  if (s.config.data.tokenizer.empty()) return;
  if (!s.tokenizer) {
    s.tokenizer = std::make_unique<Tokenizer>(Tokenizer::load(s.config.data.tokenizer));
    s.generator = std::make_unique<Generator>(s.model, s.backend, 1, sample_capacity(s.config));
  }
  Prompt prompt;
  prompt.ids = s.tokenizer->encode(s.config.metrics.sample_prompt);
  if (prompt.ids.empty()) {
    prompt.ids.push_back(
        static_cast<std::int32_t>(std::max<Index>(s.config.model.eos_token_id, 0)));
  }
  GenerateOptions options;
  options.max_new_tokens = s.config.metrics.sample_tokens;
  options.sampler.temperature = 0.7;
  options.sampler.top_p = 0.95;
  options.vocabulary_limit = s.tokenizer->vocabulary_size();
  options.skip_is_identity = s.config.model.skip_output == "identity";
  if (s.config.model.eos_token_id >= 0) {
    options.stop_ids.push_back(static_cast<std::int32_t>(s.config.model.eos_token_id));
  }
  const auto texts = s.generator->generate({&prompt, 1}, options,
                                           [](Index, std::int32_t) { return stop_signal() == 0; });
  log_info("sample: " +
           one_line(s.config.metrics.sample_prompt + s.tokenizer->decode(texts[0], {true, true})));
}

void Observer::show_progress(const TrainState& state, const StepMetrics& m) {
  if (!stderr_is_terminal()) return;
  State& s = *state_;
  s.smoothed_rate = s.smoothed_rate == 0 ? m.tokens_per_second
                                         : 0.9 * s.smoothed_rate + 0.1 * m.tokens_per_second;
  Index total = 0;
  for (const PhaseOptions& phase : s.config.phases) total += phase.tokens;
  const double done =
      static_cast<double>(state.tokens) / static_cast<double>(std::max<Index>(total, 1));
  const double left = static_cast<double>(std::max<Index>(total - state.tokens, 0)) /
                      std::max(s.smoothed_rate, 1e-9);
  set_status_line(fmt::format("training {:3.0f} %  step {}  loss {:.3f}  {}/s  {} left",
                              100 * std::min(1.0, done), state.step, m.loss,
                              human_count(s.smoothed_rate) + " tokens", human_duration(left)));
}

Index Observer::evaluation_bytes(const TrainConfig& config) {
  if (config.data.validation.empty()) return 0;
  return Evaluator::bytes(config.model, numerics_of(config),
                          HeldOut::batch_tokens(held_out_length(config)));
}

Index Observer::sample_bytes(const TrainConfig& config) {
  if (config.metrics.sample_every_steps == 0) return 0;
  return Generator::bytes(config.model, numerics_of(config), 1, sample_capacity(config));
}

}  // namespace zaya
