// SPDX-License-Identifier: Apache-2.0
#include "parallel/reduce_tree.h"

#include <utility>

namespace zaya {

Index LaneSum::num_buffers(Index lanes) {
  Index count = 1;
  while ((Index{1} << (count - 1)) < lanes) ++count;
  return count;
}

LaneSum::LaneSum(Index lanes, std::vector<Tensor> buffers)
    : lanes_(lanes), buffers_(std::move(buffers)) {
  ZAYA_CHECK(static_cast<Index>(buffers_.size()) == num_buffers(lanes));
  for (std::size_t i = buffers_.size(); i-- > 0;) free_.push_back(i);
  stack_.reserve(buffers_.size());
}

Tensor LaneSum::begin_lane(const Backend& backend) {
  ZAYA_CHECK(lane_ < lanes_ && !free_.empty());
  current_ = free_.back();
  free_.pop_back();
  backend.move->zero(buffers_[current_]);
  return buffers_[current_];
}

void LaneSum::end_lane(const Backend& backend) {
  ++lane_;
  Node node{0, current_};
  // Two subtrees of one size become one: the later is added to the earlier.
  while (!stack_.empty() && stack_.back().level == node.level) {
    const Node earlier = stack_.back();
    stack_.pop_back();
    backend.move->add(buffers_[node.buffer], 1, buffers_[earlier.buffer]);
    free_.push_back(node.buffer);
    node = {earlier.level + 1, earlier.buffer};
  }
  stack_.push_back(node);
}

Tensor LaneSum::finish(const Backend& backend) {
  ZAYA_CHECK(lane_ == lanes_);
  // What is left are subtrees of falling size; the smaller are added to the larger from the right.
  while (stack_.size() > 1) {
    const Node last = stack_.back();
    stack_.pop_back();
    backend.move->add(buffers_[last.buffer], 1, buffers_[stack_.back().buffer]);
    free_.push_back(last.buffer);
  }
  const std::size_t result = stack_.back().buffer;
  stack_.clear();
  free_.push_back(result);
  lane_ = 0;
  return buffers_[result];
}

void LaneSum::abandon() {
  stack_.clear();
  free_.clear();
  for (std::size_t i = buffers_.size(); i-- > 0;) free_.push_back(i);
  lane_ = 0;
}

}  // namespace zaya
