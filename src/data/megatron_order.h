// SPDX-License-Identifier: Apache-2.0
//
// The order of samples as Megatron-LM builds it, for people who move a run. Per source, with T
// tokens an epoch, sequence length L and W wanted samples:
//
//   epochs          E = least with E T >= W L + 1 (1 when no number is wanted)
//   document order  the sequences, E times over, shuffled as one; when the last epoch is only
//   needed
//                   in part (less than 80 % of its samples) it is shuffled on its own, appended
//   samples         the document order read as one stream; sample i begins at token i L and holds
//                   L + 1 tokens; (E T - 1) div L samples
//   shuffle         the order in which samples are used; split at the last epoch likewise
//
// Random: MT19937 as numpy's RandomState(seed); shuffle(a): for i = n-1 down to 1 swap a[i] with
// a[j], j drawn from 0..i by masked rejection. The tables take 8 to 16 bytes per sequence and epoch
// and 24 per sample.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/plan.h"

namespace zaya {

struct MegatronOrder {
  struct Start {
    Index place = 0;   // in document_order
    Index offset = 0;  // tokens into that sequence
    bool operator==(const Start&) const = default;
  };

  Index num_epochs = 1;
  bool has_separate_final_epoch = false;
  std::vector<Index> document_order;  // sequence numbers
  std::vector<Start> samples;         // one more than there are samples: the end of the last
  std::vector<Index> shuffle;         // training sample k is samples[shuffle[k]]
};

struct MegatronOrderArgs {
  std::vector<Index> sequences;  // numbers of the sequences of the split
  Index sequence_length = 0;
  std::uint32_t seed = 0;
  std::optional<Index> wanted_samples;
};

// Error{usage} when not one sample comes out, or more than fit the tables.
MegatronOrder build_megatron_order(const TokenIndex& index, const MegatronOrderArgs& args);

// Which source gives sample k = 0 .. count-1 and how many it gave before: the source with the
// largest w_i max(k, 1) - taken_i, the first one on a tie.
std::vector<std::pair<int, Index>> megatron_blend(const std::vector<double>& weights, Index count);

// Ranges of a split such as {969, 30, 1}: boundaries are the cumulated shares times the number of
// documents, rounded half to even. Shares are not negative and not all zero.
std::vector<std::pair<Index, Index>> megatron_split(const std::vector<double>& shares,
                                                    Index num_documents);

// Called by make_plan(), which has checked the options.
std::unique_ptr<SamplePlan> make_megatron_plan(const std::vector<const Shard*>& sources,
                                               const PlanOptions& options);

}  // namespace zaya
