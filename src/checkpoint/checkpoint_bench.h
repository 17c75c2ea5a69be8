// SPDX-License-Identifier: Apache-2.0
//
// `zaya bench checkpoint`: snapshot, writing and loading of a state, in turn with copying memory
// and with plain sequential writing and reading of the same disk.
#pragma once

#include <string>
#include <vector>

#include "base/bench.h"
#include "base/thread_pool.h"

namespace zaya {

// Works in `folder` (removed by the caller) on a state of `state_bytes` in all, `rounds` times.
std::vector<BenchRow> bench_checkpoint(const std::string& folder, Index state_bytes, Index rounds,
                                       ThreadPool& pool);

}  // namespace zaya
