// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>

#include "backend/testing.h"

namespace {

std::atomic<long> allocations{0};

}  // namespace

// Count what the program takes from the heap. Not inlined: the compiler would see malloc and delete
// side by side and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace zaya {

namespace {

struct Declared {
  std::string name;
  Shape shape;
  ParamRule rule;
};

// One parameter for every way a parameter can be moved.
std::vector<Declared> mixture() {
  return {{"table", {12, 8}, kTable},
          {"matrix", {8, 20}, kMatrix},
          {"tall", {20, 8}, kStreamMatrix},
          {"experts", {3, 10, 8}, kMatrix},
          {"norm", {8}, kVector},
          {"buffer", {5}, kBuffer},
          {"convolution", {16, 1, 2}, kVector}};
}

struct Run {
  Run(Numerics numerics, const std::vector<Declared>& declared, const OptimizerConfig& config = {})
      : backend(make_ref_backend(numerics)) {
    for (const Declared& d : declared) {
      params.declare(d.name, d.shape, init_normal(0.5), d.rule);
    }
    params.bind_for_training(arena.arena(), backend);
    params.initialize(1);
    params.refresh_copies(backend);
    gradients = Gradients(arena.arena(), params, backend.stream());
    optimizer = std::make_unique<Optimizer>(params, config, backend, arena.arena());
  }
  // Gradients depend on the parameter's name and the step, not on its place.
  void step(Index update, double learning_rate = 0.01, double grad_scale = 1) {
    for (const Param& param : params.all()) {
      randomize(gradients.of(param), param.name + std::to_string(update));
    }
    optimizer->step(backend, scratch, gradients, grad_scale, learning_rate, update);
  }

  TestArena arena;
  Arena scratch{"scratch", Index{16} << 20};
  Backend backend;
  ParamSet params;
  Gradients gradients;
  std::unique_ptr<Optimizer> optimizer;
};

void copy_bits(const ConstTensor& from, const ConstTensor& to) {
  REQUIRE(from.shape() == to.shape());
  REQUIRE(from.dtype() == to.dtype());
  std::memcpy(const_cast<std::byte*>(to.data()), from.data(), from.num_bytes());
}

}  // namespace

TEST_CASE("AdamW follows its formula over several steps, with decay by rule and gradient scale") {
  OptimizerConfig config;
  config.kind = "adamw";
  config.eps = 1e-3;
  for (const auto& [rule, decay] : {std::pair{kTable, 0.1}, {kVector, 0.0}}) {
    Run run(Numerics::f64, {{"w", {4, 3}, rule}}, config);
    const Param& param = run.params.all().front();
    std::vector<double> w = values(param.master), m(12, 0), v(12, 0);
    for (Index t = 1; t <= 4; ++t) {
      run.step(t, 0.02, 0.5);
      for (Index i = 0; i < 12; ++i) {
        const double g = 0.5 * values(run.gradients.of(param))[i];
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.95 * v[i] + 0.05 * g * g;
        const double root = std::sqrt(v[i] / (1 - std::pow(0.95, t)));
        w[i] -= 0.02 * decay * w[i] + 0.02 * m[i] / (1 - std::pow(0.9, t)) / (root + 1e-3);
      }
    }
    for (Index i = 0; i < 12; ++i) {
      CHECK(values(param.master)[i] == doctest::Approx(w[i]).epsilon(1e-13));
    }
  }
}

TEST_CASE("with a zero gradient only declared parameters decay, and buffers never move") {
  Run run(Numerics::f64, mixture());
  std::map<std::string, std::vector<double>> before;
  for (const Param& param : run.params.all()) before[param.name] = values(param.master);
  run.backend.move->zero(run.gradients.flat());
  run.optimizer->step(run.backend, run.scratch, run.gradients, 1, 0.01, 1);
  for (const Param& param : run.params.all()) {
    const double keep = param.rule.decays ? 1 - 0.01 * 0.1 : 1;
    for (Index i = 0; i < param.count(); ++i) {
      CHECK(values(param.master)[i] == doctest::Approx(keep * before[param.name][i]));
    }
  }
  CHECK(before["buffer"] == values(run.params.find("buffer")->master));
}

TEST_CASE("every trained parameter moves and its compute copy follows") {
  Run run(Numerics::bf16, mixture());
  std::map<std::string, std::vector<double>> before;
  for (const Param& param : run.params.all()) before[param.name] = values(param.master);
  run.step(1);
  for (const Param& param : run.params.all()) {
    const bool moved = before[param.name] != values(param.master);
    CHECK_MESSAGE(moved == (param.rule.role != OptimizerRole::none), param.name);
    CHECK(equal_bits(param.weight, converted(run.arena, param.master, param.weight.dtype())));
  }
}

TEST_CASE("the gradient is read and never changed") {
  Run run(Numerics::f32, mixture());
  run.step(1);
  const std::vector<double> before = values(run.gradients.flat());
  run.optimizer->step(run.backend, run.scratch, run.gradients, 0.1, 0.01, 2);
  CHECK(values(run.gradients.flat()) == before);
}

TEST_CASE("the scale of AdamW's learning rate applies beside Muon only") {
  OptimizerConfig config;
  config.adamw_learning_rate_scale = 0;
  Run beside(Numerics::f32, mixture(), config);
  const std::vector<double> before = values(beside.params.find("norm")->master);
  beside.step(1);
  CHECK(values(beside.params.find("norm")->master) == before);
  config.kind = "adamw";
  Run alone(Numerics::f32, mixture(), config);
  alone.step(1);
  CHECK(values(alone.params.find("norm")->master) != before);
}

TEST_CASE("state has a name per parameter and role") {
  const Run run(Numerics::f32, mixture());
  std::map<std::string, Shape> shapes;
  for (const NamedTensor& tensor : run.optimizer->state()) {
    CHECK(shapes.emplace(tensor.name, tensor.tensor.shape()).second);
  }
  CHECK(shapes.size() == 3 + 2 * 3);
  CHECK(shapes.at("optimizer.momentum.experts") == Shape{3, 10, 8});
  CHECK(shapes.at("optimizer.first_moment.table") == Shape{12, 8});
  CHECK(shapes.at("optimizer.second_moment.norm") == Shape{8});
}

TEST_CASE("state carried over by name gives the same next update although the order has changed") {
  std::vector<Declared> turned = mixture();
  std::reverse(turned.begin(), turned.end());
  Run a(Numerics::bf16, mixture()), b(Numerics::bf16, turned);
  for (Index t = 1; t <= 3; ++t) a.step(t);
  std::map<std::string, ConstTensor> saved;
  for (const NamedTensor& tensor : a.optimizer->state()) saved[tensor.name] = tensor.tensor;
  for (const NamedTensor& tensor : b.optimizer->state()) {
    REQUIRE(saved.count(tensor.name) == 1);
    copy_bits(saved[tensor.name], tensor.tensor);
  }
  for (Param& param : b.params.all()) copy_bits(a.params.find(param.name)->master, param.master);
  b.params.refresh_copies(b.backend);
  a.step(4);
  b.step(4);
  for (const Param& param : b.params.all()) {
    CHECK_MESSAGE(equal_bits(param.master, a.params.find(param.name)->master), param.name);
  }
  for (const NamedTensor& tensor : b.optimizer->state()) {
    CHECK_MESSAGE(equal_bits(tensor.tensor, saved[tensor.name]), tensor.name);
  }
}

TEST_CASE("dry arenas forecast state and scratch to the byte, and a step allocates nothing") {
  for (const Numerics numerics : {Numerics::f32, Numerics::bf16}) {
    Run real(numerics, mixture());
    real.step(1);
    CHECK(real.scratch.used() == 0);
    WorkCount work;
    const Backend counter = make_count_backend(numerics, work);
    ParamSet params;
    for (const Declared& d : mixture()) params.declare(d.name, d.shape, init_normal(1), d.rule);
    Arena run = Arena::dry("run"), scratch = Arena::dry("scratch");
    params.bind_for_training(run, counter);
    const Gradients gradients(run, params, counter.stream());
    Optimizer optimizer(params, OptimizerConfig{}, counter, run);
    CHECK(run.used() == real.arena.arena().used());
    CHECK(run.table().at("muon momentum") > 0);
    CHECK(run.table().at("adamw moments") > 0);
    CHECK(work.product_flops == 0);
    const long before = allocations;
    optimizer.step(counter, scratch, gradients, 1, 1e-3, 1);
    CHECK(allocations == before);
    CHECK(scratch.peak() == real.scratch.peak());
    CHECK(work.product_flops > 0);
  }
}

}  // namespace zaya
