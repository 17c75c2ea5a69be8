// SPDX-License-Identifier: Apache-2.0
//
// `zaya bench gemm` and `zaya bench kernels`: products, and every kernel family of a training step
// at the shapes of S2 (hidden 1024, 8 and 2 heads of 128, 16 experts of inner width 1024), each in
// turn with the yardstick that limits it.
#pragma once

#include <vector>

#include "backend/bench/yardsticks.h"

namespace zaya {

// Products of all kinds: forward, input and weight gradients, symmetric, batches of few rows.
std::vector<BenchRow> bench_products(const Backend& backend, double seconds);

// `seconds` per row, at least three calls each.
std::vector<BenchRow> bench_experts(const Backend& backend, double seconds);
std::vector<BenchRow> bench_attention(const Backend& backend, double seconds);
std::vector<BenchRow> bench_prologue(const Backend& backend, ThreadPool& pool, double seconds);
std::vector<BenchRow> bench_elementwise(const Backend& backend, ThreadPool& pool, double seconds);
// The loss over a vocabulary of 262,272: seconds per call, so it runs once or twice.
std::vector<BenchRow> bench_loss(const Backend& backend);

}  // namespace zaya
