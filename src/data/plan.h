// SPDX-License-Identifier: Apache-2.0
//
// The order of samples. Sample number k of a phase is a pure function of (sources, options, k):
// there is no state beyond a counter of consumed samples, so a run continues anywhere, in any
// epoch, with any batch size.
//
// Orders `shuffled` and `in_order` cut each source, its documents in file order, into windows:
//
//   stream   t0 t1 t2 ... t(N-1)
//   window i has the inputs t(iL) .. t(iL+L-1) and the targets t(iL+1) .. t(iL+L)
//
// so that in one epoch each token but the first of a source is a target exactly once (with isolated
// documents: each token but the first of a document). The last window of a source may be shorter:
// it is a sample too, padded by the loader, and nothing is dropped. A source below two tokens has
// no window.
//
// Without weights all windows of all sources are one pool, shuffled anew each epoch: sources count
// by size, and each window comes once per epoch. With weights each source is a pool of its own,
// shuffled and begun again on its own, and a Mixture says which pool is next.
//
// The order `megatron` is that of Megatron-LM (megatron_order.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/shard.h"
#include "data/token_stream.h"

namespace zaya {

// What a sample number stands for.
struct Sample {
  int source = 0;
  Index epoch = 0;   // of its pool
  Index number = 0;  // which sample of the source
  bool operator==(const Sample&) const = default;
};

enum class SampleOrder { shuffled, in_order, megatron };

struct PlanOptions {
  SampleOrder order = SampleOrder::shuffled;
  Index sequence_length = 0;    // L
  std::vector<double> weights;  // one per source, or empty: by size
  std::uint64_t seed = 0;
  Index stream = 0;  // number of the phase: each has its own permutations
  // Shares such as {969, 30, 1}: only the sequences of the first share are used, of each source;
  // the order megatron only. Empty: all.
  std::vector<double> split;
  // Samples that will be asked for; only the order megatron depends on it. Beyond them it repeats.
  Index wanted_samples = 0;
};

class SamplePlan {
 public:
  virtual ~SamplePlan() = default;

  virtual Sample at(Index k) const = 0;
  // Appends the pieces of a sample in order: L + 1 tokens, or 2 to L at the end of a source.
  virtual void append_pieces(const Sample& sample, std::vector<Piece>& pieces) const = 0;
  // Samples until each window of each source has come once; with weights, the windows of all
  // sources together.
  virtual Index samples_per_epoch() const = 0;
  virtual Index sequence_length() const = 0;
};

// The shards must outlive the plan. Error{usage} when the options can't work: no source with a
// window, weights that do not fit the sources, a weight for a source without a window.
std::unique_ptr<SamplePlan> make_plan(const std::vector<const Shard*>& sources,
                                      const PlanOptions& options);

// Targets in one epoch of a shard: all tokens but the first of each document (isolated), or of the
// shard.
Index targets_per_epoch(const TokenIndex& index, bool isolates_documents);

}  // namespace zaya
