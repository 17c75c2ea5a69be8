// SPDX-License-Identifier: Apache-2.0
//
// Sample numbers to batches: SampleLoader is a pure function of (shards, plan, sample numbers);
// Prefetcher runs it ahead of the training step in a thread of its own.
//
// A sample of c + 1 tokens gives c inputs, each with the next token as its target; the rest of the
// row is padding without targets. With isolated documents a document's last token has no target,
// positions begin at 0 in each document, and each document in the row is a segment.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "data/batch.h"
#include "data/plan.h"
#include "data/shard.h"

namespace zaya {

class SampleLoader {
 public:
  // Keeps references to the shards and the plan.
  SampleLoader(std::vector<const Shard*> shards, const SamplePlan& plan, bool isolates_documents);

  // The rows of samples first_sample, first_sample + 1, ... Thread-safe for different batches.
  void load(Index first_sample, Index rows, Batch& batch) const;
  // Tells the kernel that these samples will be loaded soon.
  void will_need(Index first_sample, Index rows) const;

  const SamplePlan& plan() const { return plan_; }

 private:
  struct Row;
  void fill_row(const Row& row, Index number, Batch& batch) const;
  void name_documents(const Row& row, Index number, Batch& batch) const;
  void read_tokens(const Sample& sample, Row& row) const;

  std::vector<const Shard*> shards_;
  const SamplePlan& plan_;
  bool isolates_documents_;
};

class Prefetcher {
 public:
  struct Request {
    const SampleLoader* loader = nullptr;
    Index first_sample = 0, rows = 0;
  };
  // What micro-batch k = 0, 1, ... holds; false when there is none any more. Called by the
  // prefetching thread, for some k more than once and ahead of loading: it must be a pure function.
  using Schedule = std::function<bool(Index k, Request& request)>;

  // Holds at most `depth` batches ahead of the one in use.
  Prefetcher(Schedule schedule, Index depth);
  // Stops the thread; waits at most for the batch that is being loaded.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next batch, valid until the next call; null at the end of the schedule. What the thread
  // threw is thrown here, at the batch it belongs to and at every call after.
  const Batch* next();
  // Seconds spent waiting in next() since this was called last.
  double take_wait_seconds();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zaya
