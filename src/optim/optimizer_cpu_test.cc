// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <memory>

#include "backend/testing.h"
#include "base/thread_pool.h"
#include "optim/optimizer.h"
#include "test_main.h"

namespace zaya {

namespace {

// Three updates of a few parameters; matrices are larger than one tile of a product.
struct Run {
  explicit Run(Backend made) : backend(std::move(made)) {
    params.declare("wide", {96, 330}, init_normal(0.5), kMatrix);
    params.declare("experts", {3, 200, 130}, init_normal(0.5), kMatrix);
    params.declare("router", {17, 40}, init_normal(0.5), kStreamMatrix);
    params.declare("table", {70, 33}, init_normal(0.5), kTable);
    params.declare("norm", {19}, init_constant(1), kVector);
    params.bind_for_training(arena.arena(), backend);
    params.initialize(1);
    params.refresh_copies(backend);
    const Gradients gradients(arena.arena(), params, backend.stream());
    Optimizer optimizer(params, OptimizerConfig{}, backend, arena.arena());
    for (Index update = 1; update <= 3; ++update) {
      for (const Param& param : params.all()) {
        randomize(gradients.of(param), param.name + std::to_string(update));
      }
      optimizer.step(backend, scratch, gradients, 0.5, 0.01, update);
    }
  }

  TestArena arena;
  Arena scratch{"scratch", Index{64} << 20};
  Backend backend;
  ParamSet params;
};

Run on_threads(Numerics numerics, ThreadPool& pool) {
  return Run(make_cpu_backend(numerics, pool, parse_instruction_set(test_instruction_set())));
}

}  // namespace

TEST_CASE("the number of threads changes no bit of an update") {
  for (const Numerics numerics : {Numerics::f32, Numerics::bf16}) {
    ThreadPool one(1), three(3);
    const Run a = on_threads(numerics, one), b = on_threads(numerics, three);
    for (std::size_t i = 0; i < a.params.all().size(); ++i) {
      const Param &p = a.params.all()[i], &q = b.params.all()[i];
      CHECK_MESSAGE(equal_bits(p.master, q.master), p.name);
      CHECK_MESSAGE(equal_bits(p.weight, q.weight), p.name);
    }
  }
}

TEST_CASE("the CPU's update is the reference's up to rounding") {
  for (const auto& [numerics, bound] : {std::pair{Numerics::f32, 1e-5}, {Numerics::bf16, 2e-3}}) {
    ThreadPool pool(2);
    const Run fast = on_threads(numerics, pool), plain{make_ref_backend(numerics)};
    for (std::size_t i = 0; i < fast.params.all().size(); ++i) {
      const Param &p = fast.params.all()[i], &q = plain.params.all()[i];
      CHECK_MESSAGE(relative_error(p.master, q.master) < bound, p.name);
    }
  }
}

}  // namespace zaya
