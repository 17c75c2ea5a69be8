// SPDX-License-Identifier: Apache-2.0
//
// Geometry of one attention call, used by its forward and backward parts: the query heads of one
// key head are stacked, so that query q and head h of the group are row (q - begin) * group + h of
// a tile.
#pragma once

#include <span>

#include "backend/attention.h"
#include "backend/cpu/attention_simd.h"
#include "backend/cpu/product_simd.h"
#include "backend/cpu/tiles.h"

namespace zaya {

// A run of queries or keys.
struct Range {
  Index begin = 0, end = 0;
  Index size() const { return end - begin; }
};

class AttentionCall {
 public:
  AttentionCall(CpuContext& context, const AttentionArgs& args);

  Index query_heads() const { return query_heads_; }
  Index key_heads() const { return key_heads_; }
  Index group() const { return query_heads_ / key_heads_; }
  Index channels() const { return channels_; }
  DType dtype() const { return dtype_; }
  bool is_bf16() const { return dtype_ == DType::bf16; }
  float scale() const { return scale_; }
  // Queries whose stacked rows make a tile.
  Index block_queries() const;

  // Keys that query q of the span may see; empty when there are none.
  Range keys_of(const AttentionSpan& span, Index q) const;
  // Keys that any of the queries may see.
  Range keys_of(const AttentionSpan& span, Range queries) const;
  // Queries that may see any of the keys.
  Range queries_of(const AttentionSpan& span, Range keys) const;

  // Rows of q, k, v and tensors of their shapes.
  const void* query_row(ConstTensor x, Index q, Index key_head) const {
    return element(x.data(), (q * query_heads_ + key_head * group()) * channels_, x.dtype());
  }
  void* query_row(Tensor x, Index q, Index key_head) const {
    return element(x.data(), (q * query_heads_ + key_head * group()) * channels_, x.dtype());
  }
  const void* key_row(ConstTensor x, Index k, Index key_head) const {
    return element(x.data(), (k * key_heads_ + key_head) * channels_, x.dtype());
  }
  void* key_row(Tensor x, Index k, Index key_head) const {
    return element(x.data(), (k * key_heads_ + key_head) * channels_, x.dtype());
  }
  Index key_stride() const { return key_heads_ * channels_; }
  const std::uint8_t* hidden(Index k) const { return hidden_ == nullptr ? nullptr : hidden_ + k; }

  // Copies rows of queries of one key head: [queries * group, C].
  void stack(ConstTensor x, Range queries, Index key_head, void* to) const;
  // Per stacked row the visible part of the keys, counted from keys.begin.
  void set_visible(const AttentionSpan& span, Range queries, Range keys, std::int32_t* first,
                   std::int32_t* last) const;

  // Products of a tile: a [rows, depth] times key rows, transposed or not; key rows of x.
  Product times_keys(const void* a, Index rows, ConstTensor x, Range keys, Index key_head,
                     float* scores, Index ld) const;

 private:
  const AttentionArgs& args_;
  Index query_heads_, key_heads_, channels_;
  DType dtype_;
  float scale_;
  const std::uint8_t* hidden_ = nullptr;
};

// Sets the rows of x (first dim) that no range covers to zero; ranges are sorted.
void zero_uncovered(Tensor x, std::span<const AttentionSpan> spans, bool of_keys);

// dq, dk, dv of one call (attention_backward.cc).
void attention_backward(CpuContext& context, const AttentionArgs& args, ConstTensor out,
                        ConstTensor lse, ConstTensor dout, Tensor delta, Tensor dq, Tensor dk,
                        Tensor dv);

}  // namespace zaya
