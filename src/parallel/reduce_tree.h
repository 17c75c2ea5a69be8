// SPDX-License-Identifier: Apache-2.0
//
// The order in which the gradients of lanes are added: a fixed binary tree over lane numbers, the
// same whatever computes the lanes. One buffer per level of the tree is enough when lanes come one
// after the other.
//
//   lanes 0..7:  ((0+1)+(2+3)) + ((4+5)+(6+7));   lanes 0..4:  ((0+1)+(2+3)) + 4
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"

namespace zaya {

class LaneSum {
 public:
  // Buffers needed for `lanes` lanes: 1 for one lane, 1 + ceil(log2 lanes) otherwise.
  static Index num_buffers(Index lanes);

  // `buffers`: num_buffers(lanes) tensors of equal shape that belong to the caller.
  LaneSum(Index lanes, std::vector<Tensor> buffers);

  // Zeroed buffer for the next lane's gradient; lanes come in order 0, 1, ...
  Tensor begin_lane(const Backend& backend);
  // Adds the lane that was begun into the tree.
  void end_lane(const Backend& backend);
  // The sum, after the last lane. Afterwards the object is ready for the next step.
  Tensor finish(const Backend& backend);
  // Forgets the lanes of an unfinished step.
  void abandon();

 private:
  // A finished subtree of 2^level lanes, or its last, smaller one.
  struct Node {
    Index level;
    std::size_t buffer;
  };

  Index lanes_, lane_ = 0;
  std::vector<Tensor> buffers_;
  std::vector<std::size_t> free_;
  std::vector<Node> stack_;
  std::size_t current_ = 0;
};

}  // namespace zaya
