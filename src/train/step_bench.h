// SPDX-License-Identifier: Apache-2.0
//
// `zaya bench step`: whole training steps on made-up tokens - data, forward, backward, clipping,
// optimizer, balancing - in turn with the machine's best product.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/bench.h"
#include "base/thread_pool.h"

namespace zaya {

struct StepBenchOptions {
  std::string preset = "s1";      // a model preset
  std::string optimizer = "";     // adamw, muon; empty: adamw for s1, muon for others
  std::string numerics = "bf16";  // bf16, f32
  std::string instruction_set = "auto";
  Index batch_tokens = 0;        // of a step; 0: 2,048 for s1, 16,384 for others
  Index micro_batch_tokens = 0;  // 0: what fits well
  Index sequence_length = 0;     // 0: 512 for s1, 1,024 for others
  double seconds = 20;           // of measuring
};

struct StepBenchResult {
  std::vector<BenchRow> rows;
  // Where the time of profiled steps went: part and share of the time between their first and last
  // moment; in order of size.
  std::vector<std::pair<std::string, double>> profile;
  // Sum of all parts over the steps' time taken by another clock reading; 1 when nothing is lost.
  double profile_sum = 0;
  Index resident_bytes = 0;  // anonymous memory while steps run, most seen
  Index forecast_bytes = 0;  // what `zaya train --plan` says for it, without a save in flight
};

// Token files are written below `folder`, which the caller removes.
StepBenchResult bench_step(const StepBenchOptions& options, const std::string& folder,
                           ThreadPool& pool);

}  // namespace zaya
