// SPDX-License-Identifier: Apache-2.0
//
// Part of `zaya bench kernels`: Muon over the matrices of a model, in turn with the best product.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "base/bench.h"
#include "base/thread_pool.h"
#include "model/config.h"
#include "optim/config.h"

namespace zaya {

// One Muon step of a model of that shape, and what known savings bring: symmetric products computed
// once, coefficient sets that need fewer iterations. Takes masters, momentum and gradients of the
// first `layers` blocks only: all blocks have the same matrices.
std::vector<BenchRow> bench_muon(const ModelConfig& config, const Backend& backend,
                                 ThreadPool& pool, double seconds);

}  // namespace zaya
