// SPDX-License-Identifier: Apache-2.0
#include "train/step.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "model/token_rows.h"
#include "optim/optimizer.h"

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

constexpr Index kLength = 16, kRows = 2;

// Steps of a tiny model over given rows, on the count backend: everything but the kernels is real.
struct DrySteps {
  DrySteps(Index num_lanes, bool recomputes)
      : backend(make_count_backend(Numerics::bf16, work)),
        model(model_preset("tiny"), params),
        ids(kRows * kLength, 3),
        rows(ids, kLength) {
    rows.set_targets(ids);
    micro = {rows.batch(), kRows * kLength};
    params.bind_for_training(run, backend);
    model.bind(run, backend, kLength);
    optimizer = std::make_unique<Optimizer>(params, OptimizerConfig{}, backend, run);
    gradient = std::make_unique<StepGradient>(model, params, backend, num_lanes, recomputes, run,
                                              saved, scratch);
  }

  void step(Index num_micro_batches) {
    const auto next = [&]() -> const MicroBatch& { return micro; };
    const StepResult result = gradient->run(num_micro_batches, next);
    CHECK(result.num_targets == num_micro_batches * kRows * kLength);
    optimizer->step(backend, scratch, Gradients(result.gradient), 1, 1e-3, ++update);
  }

  WorkCount work;
  Backend backend;
  Arena run = Arena::dry("run"), saved = Arena::dry("saved"), scratch = Arena::dry("scratch");
  ParamSet params;
  Model model;
  std::vector<std::int32_t> ids;
  TokenRows rows;
  MicroBatch micro;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<StepGradient> gradient;
  Index update = 0;
};

}  // namespace

TEST_CASE("after the first step, layers, lanes and optimizers take nothing from the heap") {
  for (const Index lanes : {1, 4}) {
    for (const bool recomputes : {false, true}) {
      DrySteps steps(lanes, recomputes);
      steps.step(4);
      const long before = allocations;
      for (int i = 0; i < 3; ++i) steps.step(4);
      CHECK(allocations == before);
    }
  }
}

}  // namespace zaya
