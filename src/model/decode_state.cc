// SPDX-License-Identifier: Apache-2.0
#include "model/decode_state.h"

#include <cstring>

namespace zaya {

DecodeState::DecodeState(Arena& arena, const ModelConfig& config, DType compute, Index rows,
                         Index capacity)
    : capacity_(capacity), lengths_(rows, 0) {
  const Arena::Scope scope(arena, "decode state");
  const Index kept = config.cca_time0 + config.cca_time1 - 2;
  for (Index i = 0; i < config.num_hidden_layers; ++i) {
    Block& block = blocks_.emplace_back();
    block.keys =
        arena.take(compute, {rows * capacity, config.num_key_value_heads, config.head_dim});
    block.values =
        arena.take(compute, {rows * capacity, config.num_key_value_heads, config.head_dim});
    if (kept > 0) block.columns = arena.take(compute, {rows, kept, config.conv_channels()});
    block.delayed = arena.take(compute, {rows, config.half_value()});
  }
  for (Index row = 0; row < rows; ++row) reset(row);
}

void DecodeState::reset(Index row) {
  lengths_[row] = 0;
  for (const Block& block : blocks_) {
    if (!block.columns.is_none() && block.columns.data() != nullptr) {
      std::memset(block.columns[row].data(), 0, block.columns[row].num_bytes());
    }
  }
}

}  // namespace zaya
