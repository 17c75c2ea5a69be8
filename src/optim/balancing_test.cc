// SPDX-License-Identifier: Apache-2.0
#include "optim/balancing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>

#include "backend/testing.h"
#include "model/model.h"

namespace zaya {

namespace {

constexpr Index kExperts = 16;

// Biases of some blocks, bound, and a controller for them.
struct Control {
  explicit Control(Index blocks, const OptimizerConfig& config = {}) {
    for (Index i = 0; i < blocks; ++i) {
      biases.push_back(
          &params.declare("biases" + std::to_string(i), {kExperts + 1}, init_constant(0), kBuffer));
    }
    params.bind_for_training(arena.arena(), make_ref_backend(Numerics::f32));
    params.initialize(1);
    for (Param* param : biases) set_element(param->master, kExperts, -1);
    ModelConfig model;
    model.num_experts = kExperts;
    balancing = std::make_unique<Balancing>(model, biases, config, arena.arena());
  }
  std::vector<double> bias(Index block = 0) const { return values(biases[block]->master); }

  TestArena arena;
  ParamSet params;
  std::vector<Param*> biases;
  std::unique_ptr<Balancing> balancing;
};

// A router of one block that is learning: logits z = spread (offset + direction . token) over 17
// classes, 8,192 tokens a step from 128 documents of their own topics. Offsets favour some experts
// and drift like the directions; the spread of the logits grows as training goes on.
struct Simulation {
  double first_spread = 0.01, last_spread = 1;
  Index growth_steps = 200;
  double skew = 1, drift = 0.01;

  static constexpr Index kTopics = 8, kDocuments = 128, kTokens = 64;
  static constexpr Index kClasses = kExperts + 1;

  void start() {
    const Rng rng(11, "simulated router");
    normals_.resize(1 << 16);
    for (std::size_t i = 0; i < normals_.size(); ++i) normals_[i] = rng.normal(i);
    for (Index e = 0; e < kClasses; ++e) {
      offset_[e] = skew * draw();
      for (double& x : direction_[e]) x = draw() / std::sqrt(double{kTopics});
    }
  }

  // Tokens per class under these biases at a step, after which the router has drifted.
  std::vector<std::int64_t> route(const std::vector<double>& bias, Index step) {
    const double progress =
        std::min(1.0, static_cast<double>(step) / static_cast<double>(growth_steps));
    const double spread = first_spread * std::pow(last_spread / first_spread, progress);
    std::vector<std::int64_t> loads(kClasses);
    for (Index document = 0; document < kDocuments; ++document) {
      std::array<double, kTopics> topic;
      for (double& x : topic) x = 0.5 * draw();
      for (Index token = 0; token < kTokens; ++token) {
        std::array<double, kTopics> features;
        for (Index i = 0; i < kTopics; ++i) features[i] = topic[i] + 0.87 * draw();
        ++loads[choose(bias, features, spread)];
      }
    }
    const double keep = std::sqrt(1 - drift * drift);
    for (Index e = 0; e < kClasses; ++e) {
      offset_[e] = keep * offset_[e] + drift * skew * draw();
      for (double& x : direction_[e]) x = keep * x + drift * draw() / std::sqrt(double{kTopics});
    }
    return loads;
  }

 private:
  // A normal number from a table: drawing each one anew would take most of the test's time.
  double draw() {
    std::uint64_t x = counter_ += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return normals_[(x ^ (x >> 31)) % normals_.size()];
  }

  Index choose(const std::vector<double>& bias, const std::array<double, kTopics>& features,
               double spread) const {
    std::array<double, kClasses> p;
    double sum = 0;
    for (Index e = 0; e < kClasses; ++e) {
      double z = offset_[e];
      for (Index i = 0; i < kTopics; ++i) z += direction_[e][i] * features[i];
      sum += p[e] = std::exp(spread * z);
    }
    Index best = 0;
    for (Index e = 1; e < kClasses; ++e) {
      if (p[e] / sum + bias[e] > p[best] / sum + bias[best]) best = e;
    }
    return best;
  }

  std::vector<double> normals_;
  std::uint64_t counter_ = 11;
  std::array<double, kClasses> offset_{};
  std::array<std::array<double, kTopics>, kClasses> direction_{};
};

// Entropy of the loads after each step.
std::vector<double> run(Simulation simulation, const OptimizerConfig& config, Index steps) {
  Control control(1, config);
  simulation.start();
  std::vector<double> entropies;
  for (Index step = 0; step < steps; ++step) {
    const ExpertLoads loads = {simulation.route(control.bias(), step)};
    entropies.push_back(load_balance(loads).entropy);
    control.balancing->step(loads, step + 1);
  }
  return entropies;
}

double mean(const std::vector<double>& x, Index begin, Index end) {
  return std::accumulate(x.begin() + begin, x.begin() + end, 0.0) /
         static_cast<double>(end - begin);
}

std::vector<std::int64_t> skewed_loads() {
  std::vector<std::int64_t> loads(kExperts + 1, 10);
  loads[3] = 1000;
  loads[kExperts] = 77;
  return loads;
}

}  // namespace

TEST_CASE("entropy and largest load are over experts only and leave empty blocks out") {
  const LoadBalance even = load_balance({{5, 5, 5, 5, 100}});
  CHECK(even.entropy == doctest::Approx(1));
  CHECK(even.max_over_mean == doctest::Approx(1));
  const LoadBalance one = load_balance({{8, 0, 0, 0, 0}});
  CHECK(one.entropy == doctest::Approx(0));
  CHECK(one.max_over_mean == doctest::Approx(4));
  const LoadBalance both = load_balance({{5, 5, 5, 5, 0}, {0, 0, 0, 0, 9}, {10, 10, 0, 0, 1}});
  CHECK(both.entropy == doctest::Approx(0.75));
  CHECK(both.max_over_mean == doctest::Approx(2));
  CHECK(load_balance({{4, 9}}).entropy == 1);
}

TEST_CASE("with the published options a step is AdamW on load minus even share, less its mean") {
  OptimizerConfig config;
  config.balancing_adaptation = 0;
  config.balancing_beta1 = 0.9;
  config.balancing_beta2 = 0.999;
  config.balancing_eps = 1e-8;
  Control control(1, config);
  std::vector<double> b(kExperts, 0), m(kExperts, 0), v(kExperts, 0), u(kExperts, 0);
  for (int t = 1; t <= 3; ++t) {
    std::vector<std::int64_t> loads = skewed_loads();
    loads[t] += 300 * t;
    control.balancing->step({loads}, t);
    const double total = std::accumulate(loads.begin(), loads.begin() + kExperts, 0.0);
    double average = 0;
    for (Index e = 0; e < kExperts; ++e) {
      const double g = static_cast<double>(loads[e]) / total - 1.0 / 16;
      m[e] = 0.9 * m[e] + 0.1 * g;
      v[e] = 0.999 * v[e] + 0.001 * g * g;
      u[e] =
          m[e] / (1 - std::pow(0.9, t)) / (std::sqrt(v[e] / (1 - std::pow(0.999, t))) + 1e-8 / 16);
      average += u[e] / 16;
    }
    for (Index e = 0; e < kExperts; ++e) b[e] -= 1e-3 * (u[e] - average);
  }
  for (Index e = 0; e < kExperts; ++e) {
    CHECK(control.bias()[e] == doctest::Approx(b[e]).epsilon(1e-5));
  }
}

TEST_CASE("the skip class keeps its bias and its distance unless it is included") {
  for (const bool is_included : {false, true}) {
    OptimizerConfig config;
    config.balancing_includes_skip = is_included;
    Control control(1, config);
    for (int t = 1; t <= 20; ++t) control.balancing->step({skewed_loads()}, t);
    const std::vector<double> bias = control.bias();
    CHECK((bias[kExperts] == -1) == !is_included);
    const Index classes = is_included ? kExperts + 1 : kExperts;
    const double sum = std::accumulate(bias.begin(), bias.begin() + classes, 0.0);
    CHECK(std::abs(sum - (is_included ? -1 : 0)) < 1e-6);
    CHECK(bias[3] < bias[4]);
  }
}

TEST_CASE("a block whose tokens all skipped stays as it is, others move") {
  Control control(2);
  std::vector<std::int64_t> nothing(kExperts + 1, 0);
  nothing[kExperts] = 500;
  control.balancing->step({nothing, skewed_loads()}, 1);
  for (Index e = 0; e < kExperts; ++e) CHECK(control.bias(0)[e] == 0);
  CHECK(control.bias(1)[3] < 0);
}

TEST_CASE("the rate grows while errors agree, shrinks when they turn, and has limits") {
  Control control(1);
  const auto rate = [&] { return values(control.balancing->rates())[0]; };
  CHECK(rate() == doctest::Approx(1e-3));
  Index t = 0;
  for (int i = 0; i < 100; ++i) control.balancing->step({skewed_loads()}, ++t);
  CHECK(rate() == doctest::Approx(0.1));
  std::vector<std::int64_t> here(kExperts + 1, 10), there(kExperts + 1, 20);
  for (Index e = 0; e < kExperts; e += 2) std::swap(here[e], there[e]);
  for (int i = 0; i < 200; ++i) {
    control.balancing->step({i % 2 == 0 ? here : there}, ++t);
  }
  CHECK(rate() < 1e-4);
  OptimizerConfig still;
  still.balancing_rate = 0;
  Control off(1, still);
  off.balancing->step({skewed_loads()}, 1);
  off.balancing->step({skewed_loads()}, 2);
  for (Index e = 0; e < kExperts; ++e) CHECK(off.bias()[e] == 0);
}

TEST_CASE("a fresh, skewed, growing router is even within 100 steps and stays so") {
  for (const double first_spread : {0.01, 0.5}) {
    Simulation simulation;
    simulation.first_spread = first_spread;
    const std::vector<double> entropies = run(simulation, OptimizerConfig{}, 250);
    CAPTURE(first_spread);
    CHECK(entropies[0] < 0.8);  // the start is uneven
    CHECK(mean(entropies, 60, 100) >= 0.99);
    // No swings: every single step stays even, although the spread grows 100-fold meanwhile.
    CHECK(*std::min_element(entropies.begin() + 60, entropies.end()) > 0.95);
    CHECK(mean(entropies, 230, 250) >= 0.99);
  }
}

TEST_CASE("a fixed rate far from the router's spread fails where the adapted one holds") {
  OptimizerConfig fixed;
  fixed.balancing_adaptation = 0;
  fixed.balancing_beta1 = 0.9;
  fixed.balancing_beta2 = 0.999;
  fixed.balancing_eps = 1e-8;
  Simulation simulation;
  const std::vector<double> entropies = run(simulation, fixed, 200);
  CHECK(mean(entropies, 5, 20) < 0.9);
  CHECK(mean(entropies, 180, 200) < 0.97);
}

TEST_CASE("state carried over by name continues bit for bit") {
  Control a(2), b(2);
  for (int t = 1; t <= 5; ++t) a.balancing->step({skewed_loads(), skewed_loads()}, t);
  const auto from = a.balancing->state(), to = b.balancing->state();
  REQUIRE(from.size() == to.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    CHECK(from[i].name == to[i].name);
    const Tensor target(const_cast<std::byte*>(to[i].tensor.data()), to[i].tensor.dtype(),
                        to[i].tensor.shape());
    std::memcpy(target.data(), from[i].tensor.data(), target.num_bytes());
  }
  for (Index i = 0; i < 2; ++i) {
    std::memcpy(b.biases[i]->master.data(), a.biases[i]->master.data(),
                a.biases[i]->master.num_bytes());
  }
  for (Control* c : {&a, &b}) c->balancing->step({skewed_loads(), skewed_loads()}, 6);
  for (Index i = 0; i < 2; ++i) CHECK(equal_bits(a.biases[i]->master, b.biases[i]->master));
  for (std::size_t i = 0; i < from.size(); ++i) CHECK(equal_bits(from[i].tensor, to[i].tensor));
}

TEST_CASE("a model hands out the biases of all its blocks in order") {
  ModelConfig c;
  c.vocab_size = 32;
  c.hidden_size = 16;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 2;
  c.num_key_value_heads = 1;
  c.head_dim = 8;
  c.num_experts = 4;
  c.moe_intermediate_size = 16;
  c.router_hidden_size = 8;
  ParamSet params;
  const Model model(c, params);
  const std::vector<Param*> biases = balancing_biases(model);
  REQUIRE(biases.size() == 3);
  for (Index i = 0; i < 3; ++i) {
    CHECK(biases[i]->name == "model.layers." + std::to_string(i) + ".mlp.gate.balancing_biases");
  }
}

}  // namespace zaya
