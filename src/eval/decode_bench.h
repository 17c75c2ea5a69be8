// SPDX-License-Identifier: Apache-2.0
//
// `zaya bench decode`: generation with made-up weights, in turn with reading memory (decoding) or
// with the forward part of training (prefill).
#pragma once

#include <vector>

#include "backend/backend.h"
#include "base/bench.h"
#include "base/thread_pool.h"
#include "model/config.h"

namespace zaya {

std::vector<BenchRow> bench_decode(const ModelConfig& config, const Backend& backend,
                                   ThreadPool& pool, double seconds);

}  // namespace zaya
