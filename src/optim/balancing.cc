// SPDX-License-Identifier: Apache-2.0
#include "optim/balancing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "model/model.h"

namespace zaya {

namespace {

// Limits of an adapted rate. Biases compete with probabilities: steps above 0.1 are never useful,
// and the lower limit is below the spread of any router in f32.
constexpr double kLeastRate = 1e-6, kLargestRate = 0.1;

}  // namespace

std::vector<Param*> balancing_biases(const Model& model) {
  std::vector<Param*> biases;
  for (Index layer = 0; layer < model.config().num_hidden_layers; ++layer) {
    biases.push_back(&model.router(layer).balancing_biases());
  }
  return biases;
}

Balancing::Balancing(const ModelConfig& model, std::vector<Param*> biases,
                     const OptimizerConfig& config, Arena& run)
    : config_(config),
      classes_(model.num_experts + (config.balancing_includes_skip ? 1 : 0)),
      biases_(std::move(biases)),
      error_(classes_),
      direction_(classes_) {
  const Arena::Scope scope(run, "balancing");
  const Index blocks = static_cast<Index>(biases_.size());
  first_ = run.take(DType::f32, {blocks, model.num_experts + 1});
  second_ = run.take(DType::f32, {blocks, model.num_experts + 1});
  rate_ = run.take(DType::f32, {blocks});
  if (rate_.data() == nullptr) return;  // a dry arena
  for (const Tensor& moment : {first_, second_}) {
    const auto elements = moment.as<float, 1>();
    std::fill(elements.begin(), elements.end(), 0.0F);
  }
  const auto rates = rate_.as<float, 1>();
  std::fill(rates.begin(), rates.end(), static_cast<float>(config.balancing_rate));
}

void Balancing::step(const ExpertLoads& loads, Index update) {
  ZAYA_CHECK(loads.size() == biases_.size() && update >= 1);
  for (Index block = 0; block < static_cast<Index>(biases_.size()); ++block) {
    step_block(block, loads[block], update);
  }
}

void Balancing::step_block(Index block, const std::vector<std::int64_t>& loads, Index update) {
  ZAYA_CHECK(static_cast<Index>(loads.size()) == first_.columns());
  const std::int64_t total =
      std::accumulate(loads.begin(), loads.begin() + classes_, std::int64_t{0});
  if (total == 0) return;
  const double even = 1.0 / static_cast<double>(classes_);
  for (Index e = 0; e < classes_; ++e) {
    error_[e] = static_cast<double>(loads[e]) / static_cast<double>(total) - even;
  }
  const double rate = adapted_rate(block);
  const auto first = first_.as<float, 2>()[block], second = second_.as<float, 2>()[block];
  const double beta1 = config_.balancing_beta1, beta2 = config_.balancing_beta2;
  const double correction1 = 1 - std::pow(beta1, static_cast<double>(update));
  const double correction2 = 1 - std::pow(beta2, static_cast<double>(update));
  double mean = 0;
  for (Index e = 0; e < classes_; ++e) {
    first[e] = static_cast<float>(beta1 * first[e] + (1 - beta1) * error_[e]);
    second[e] = static_cast<float>(beta2 * second[e] + (1 - beta2) * error_[e] * error_[e]);
    const double root = std::sqrt(second[e] / correction2);
    direction_[e] = first[e] / correction1 / (root + config_.balancing_eps * even);
    mean += direction_[e] * even;
  }
  const auto biases = biases_[block]->master.as<float, 1>();
  for (Index e = 0; e < classes_; ++e) {
    biases[e] = static_cast<float>(biases[e] - rate * (direction_[e] - mean));
  }
}

double Balancing::adapted_rate(Index block) {
  const auto first = first_.as<float, 2>()[block];
  float& rate = rate_.as<float, 1>()[block];
  double agreement = 0, error_squares = 0, moment_squares = 0;
  for (Index e = 0; e < classes_; ++e) {
    const double moment = first[e];
    agreement += error_[e] * moment;
    error_squares += error_[e] * error_[e];
    moment_squares += moment * moment;
  }
  if (error_squares > 0 && moment_squares > 0) {
    const double cosine = agreement / std::sqrt(error_squares * moment_squares);
    const double wanted = rate * std::exp(config_.balancing_adaptation * cosine);
    rate = static_cast<float>(std::clamp(wanted, std::min(kLeastRate, config_.balancing_rate),
                                         std::max(kLargestRate, config_.balancing_rate)));
  }
  return rate;
}

std::vector<NamedTensor> Balancing::state() const {
  return {{"balancing.first_moment", first_},
          {"balancing.second_moment", second_},
          {"balancing.rate", rate_}};
}

LoadBalance load_balance(const ExpertLoads& loads) {
  LoadBalance out;
  double entropy = 0;
  Index blocks = 0;
  for (const std::vector<std::int64_t>& block : loads) {
    const Index experts = static_cast<Index>(block.size()) - 1;
    const auto last = block.begin() + experts;
    const double total = static_cast<double>(std::accumulate(block.begin(), last, std::int64_t{0}));
    if (total == 0) continue;
    double sum = 0;
    for (auto load = block.begin(); load != last; ++load) {
      const double share = static_cast<double>(*load) / total;
      if (share > 0) sum -= share * std::log(share);
    }
    entropy += experts > 1 ? sum / std::log(static_cast<double>(experts)) : 1;
    const double largest = static_cast<double>(*std::max_element(block.begin(), last));
    out.max_over_mean = std::max(out.max_over_mean, largest / total * static_cast<double>(experts));
    ++blocks;
  }
  if (blocks > 0) out.entropy = entropy / static_cast<double>(blocks);
  return out;
}

}  // namespace zaya
