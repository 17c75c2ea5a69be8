// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backend/bench/kernels.h"

namespace zaya {

namespace {

constexpr Index kTokens = 4096, kWidth = 1024, kInner = 1024, kExperts = 16;

// Classes of tokens by Zipf's law: expert e gets a share of 1 / (e + 1), the last expert nothing.
// Tokens of one expert are scattered over the batch.
std::vector<std::int32_t> uneven_choices() {
  double total = 0;
  for (Index e = 0; e + 1 < kExperts; ++e) total += 1.0 / static_cast<double>(e + 1);
  std::vector<std::int32_t> sorted;
  for (Index e = 0; e + 1 < kExperts; ++e) {
    const auto share = static_cast<Index>(
        std::llround(static_cast<double>(kTokens) / static_cast<double>(e + 1) / total));
    sorted.insert(sorted.end(), static_cast<std::size_t>(share), static_cast<std::int32_t>(e));
  }
  sorted.resize(kTokens, 0);
  std::vector<std::int32_t> choices(kTokens);
  for (Index i = 0; i < kTokens; ++i) choices[i] = sorted[i * 1601 % kTokens];  // 1601 is odd
  return choices;
}

// A layer of experts, forward and backward, on given tensors.
struct ExpertLayer {
  ExpertLayer(const Backend& backend, BenchMemory& memory);
  void products();
  void all();

  ExpertKernels& kernels;
  Tensor x, w1, w2, dw1, dw2, choice, weight, rows, gu, a, da, dgu, wa, out, dout, dx, dweight;
  RowPlan plan;
};

ExpertLayer::ExpertLayer(const Backend& b, BenchMemory& memory) : kernels(*b.experts) {
  const DType type = b.compute(), sums = b.stream();
  const Index padded = max_expert_rows(kTokens, kExperts);
  x = memory.values(type, {kTokens, kWidth});
  dout = memory.values(type, {kTokens, kWidth});
  w1 = memory.values(type, {kExperts, 2 * kInner, kWidth}, 0.05);
  w2 = memory.values(type, {kExperts, kWidth, kInner}, 0.05);
  dw1 = memory.zeros(sums, {kExperts, 2 * kInner, kWidth});
  dw2 = memory.zeros(sums, {kExperts, kWidth, kInner});
  weight = memory.values(sums, {kTokens});
  dweight = memory.zeros(sums, {kTokens});
  rows = memory.values(type, {padded, kWidth});
  gu = memory.values(type, {padded, 2 * kInner});
  dgu = memory.values(type, {padded, 2 * kInner});
  for (Tensor* t : {&a, &da, &wa}) *t = memory.values(type, {padded, kInner});
  out = memory.zeros(type, {kTokens, kWidth});
  dx = memory.zeros(type, {kTokens, kWidth});
  choice = memory.ids(uneven_choices());
  plan = {memory.zeros(DType::i32, {kTokens}), memory.zeros(DType::i32, {padded}),
          memory.zeros(DType::i32, {kExperts + 1}), memory.zeros(DType::i64, {kExperts + 1})};
  kernels.dispatch(choice, kExperts, plan);
}

void ExpertLayer::products() {
  kernels.grouped_forward(rows, w1, plan, gu);
  kernels.grouped_forward(a, w2, plan, rows);
  kernels.grouped_backward_input(rows, w2, plan, da);
  kernels.grouped_backward_weight(rows, wa, plan, dw2);
  kernels.grouped_backward_weight(dgu, rows, plan, dw1);
  kernels.grouped_backward_input(dgu, w1, plan, rows);
}

void ExpertLayer::all() {
  kernels.dispatch(choice, kExperts, plan);
  kernels.gather(x, plan, rows);
  kernels.grouped_forward(rows, w1, plan, gu);
  kernels.swiglu_forward(gu, plan, a);
  kernels.grouped_forward(a, w2, plan, rows);
  kernels.combine_forward(rows, x, weight, plan, false, out);

  kernels.gather(dout, plan, rows);
  kernels.grouped_backward_input(rows, w2, plan, da);
  kernels.swiglu_backward(gu, da, weight, plan, dgu, wa, dweight);
  kernels.grouped_backward_weight(rows, wa, plan, dw2);
  kernels.gather(x, plan, rows);
  kernels.grouped_backward_weight(dgu, rows, plan, dw1);
  kernels.grouped_backward_input(dgu, w1, plan, rows);
  kernels.combine_backward(rows, dout, x, weight, plan, false, dx, dweight);
}

}  // namespace

std::vector<BenchRow> bench_experts(const Backend& backend, double seconds) {
  BenchMemory memory(backend);
  ExpertLayer layer(backend, memory);
  // One dense product of the same FLOPs, of each kind that the layer has.
  const Tensor x = memory.values(backend.compute(), {kTokens, kWidth});
  const Tensor w = memory.values(backend.compute(), {3 * kInner, kWidth}, 0.05);
  const Tensor y = memory.values(backend.compute(), {kTokens, 3 * kInner});
  const Tensor dw = memory.zeros(backend.stream(), {3 * kInner, kWidth});
  const auto dense = [&] {
    backend.gemm->forward(x, w, ConstTensor{}, y);
    backend.gemm->backward_input(y, w, x, false);
    backend.gemm->backward_weight(y, x, dw, Tensor{});
  };
  const auto products = [&] { layer.products(); };
  const auto all = [&] { layer.all(); };
  const FunctionRef<void()> bodies[] = {products, all, dense};
  const std::vector<Timing> timings = time_alternately(bodies, 3 * seconds);
  const double flops = 3 * 2.0 * kTokens * kWidth * 3 * kInner;
  const std::string yardstick = "dense products";
  return {compare({"experts: products, Zipf-like loads, one empty", "GFLOP/s", yardstick, flops,
                   flops, 0.85},
                  timings[0], timings[2]),
          compare({"experts: whole layer, forward and backward", "GFLOP/s", yardstick, flops, flops,
                   0.85},
                  timings[1], timings[2])};
}

}  // namespace zaya
