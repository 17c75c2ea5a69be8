// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "backend/bench/kernels.h"
#include "base/clock.h"

namespace zaya {

namespace {

constexpr Index kTokens = 4096, kWidth = 1024, kVocabulary = 262272;

}  // namespace

std::vector<BenchRow> bench_loss(const Backend& backend) {
  BenchMemory memory(backend);
  ProductYardstick yardstick(backend);
  std::vector<std::int32_t> targets(kTokens);
  for (Index i = 0; i < kTokens; ++i) targets[i] = static_cast<std::int32_t>(i * 61 % kVocabulary);
  LossArgs args;
  args.x = memory.values(backend.compute(), {kTokens, kWidth});
  args.w = memory.values(backend.compute(), {kVocabulary, kWidth}, 0.05);
  args.targets = memory.ids(targets);
  const Index chunk = loss_chunk_rows(kTokens, kVocabulary);
  args.scratch = memory.zeros(backend.stream(), {chunk, kVocabulary});
  LossGradients d;
  d.dx = memory.zeros(backend.compute(), {kTokens, kWidth});
  d.dw = memory.zeros(backend.stream(), {kVocabulary, kWidth});
  const auto loss = [&] { static_cast<void>(backend.loss->cross_entropy(args, &d, Tensor{})); };
  const auto product = [&] {
    for (int i = 0; i < 100; ++i) yardstick.run();
  };
  const FunctionRef<void()> bodies[] = {product, loss, product};
  const std::vector<Timing> t = time_alternately(bodies, 0, 1);
  Timing around = t[0];
  around.median = (t[0].median + t[2].median) / 2;
  const double flops = 3 * 2.0 * kTokens * kWidth * kVocabulary;
  const std::string name =
      fmt::format("loss: 4096 tokens, vocabulary 262,272, {} beyond its tensors",
                  human_bytes(static_cast<double>(args.scratch.num_bytes())));
  return {compare({name, "GFLOP/s", "best product", flops, 100 * yardstick.flops(), 0.8}, t[1],
                  around)};
}

}  // namespace zaya
