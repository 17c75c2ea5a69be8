// SPDX-License-Identifier: Apache-2.0
//
// `zaya bench data`: training a tokenizer and turning text into tokens, in turn with reading and
// hashing the same file.
#pragma once

#include <string>
#include <vector>

#include "base/bench.h"
#include "base/thread_pool.h"

namespace zaya {

struct DataBenchOptions {
  std::string input;               // JSONL or text; empty: made-up text
  Index text_bytes = 100'000'000;  // of made-up text
  Index vocabulary_size = 32768;
  Index rounds = 3;
};

// Works in `folder`, which the caller removes.
std::vector<BenchRow> bench_data(const DataBenchOptions& options, const std::string& folder,
                                 ThreadPool& pool);

}  // namespace zaya
