// SPDX-License-Identifier: Apache-2.0
//
// The whole ZAYA model: entry, blocks, head; forward and hand-written backward.
#pragma once

#include <deque>
#include <vector>

#include "model/block.h"
#include "model/decode_state.h"
#include "model/embedding.h"
#include "model/lm_head.h"

namespace zaya {

class Model {
 public:
  // Declares all parameters in `params`, which must outlive the model.
  Model(const ModelConfig& config, ParamSet& params);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelConfig& config() const { return config_; }

  // Makes the rotary tables for positions [0, max_positions) in `run`.
  void bind(Arena& run, const Backend& backend, Index max_positions);
  // Sets the balancing biases to their start: 0 for experts, -1 for skip.
  void reset_balancing() const;
  const Router& router(Index layer) const { return blocks_[layer].router(); }

  // What a forward pass keeps: the streams at block borders, and each block's saved tensors (only
  // one block's at a time when blocks are run again). Windows on the saved arena.
  struct Activations {
    std::vector<Stream> streams;  // L + 1
    std::vector<Block::Saved> blocks;
    LmHead::Saved head;
  };

  // Forward, loss and (with pass.gradients) backward of one micro-batch. Returns the loss summed
  // over tokens with a target; gradients are those of scale * that sum, added to what is there.
  // logprobs [T] stream type, or no tensor. The saved arena is rewound on return unless
  // pass.trace is set. `act` is used during the call; the same one again saves allocating it.
  double run(Pass& pass, double scale, Tensor logprobs, Activations& act) const;
  double run(Pass& pass, double scale, Tensor logprobs) const {
    Activations act;
    return run(pass, scale, logprobs, act);
  }

  // Forward without loss: returns x [T, D] compute type after the last norm, in the saved arena
  // (which the caller rewinds). Advances pass.decode.
  Tensor encode(Pass& pass) const;
  // logits [n, V] stream type of rows of encode()'s result.
  void logits(Pass& pass, ConstTensor x, Tensor logits) const { head_.logits(pass, x, logits); }

 private:
  void forward(Pass& pass, Activations& act) const;
  void backward(Pass& pass, Activations& act, Tensor dr) const;

  ModelConfig config_;
  Embedding embedding_;
  std::deque<Block> blocks_;
  LmHead head_;
};

}  // namespace zaya
