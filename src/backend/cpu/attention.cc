// SPDX-License-Identifier: Apache-2.0
//
// Forward attention by blocks of queries: scores of one block of keys at a time, running softmax,
// sum of values in f32. A task is one block of queries of one key head; it alone writes its rows.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/cpu/attention_call.h"

namespace zaya {

namespace {

constexpr Index kBlockRows = 256;     // stacked query rows of a tile
constexpr Index kBlockQueries = 128;  // at most, so that little of the diagonal is wasted
constexpr Index kBlockKeys = 256;

struct ForwardTask {
  Index span = 0, key_head = 0, cost = 0;
  Range queries;
};

}  // namespace

AttentionCall::AttentionCall(CpuContext& context, const AttentionArgs& args)
    : args_(args),
      query_heads_(args.q.dim(1)),
      key_heads_(args.k.dim(1)),
      channels_(args.q.dim(2)),
      dtype_(context.compute()),
      scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(channels_)))) {
  if (!args.hidden_keys.is_none()) hidden_ = args.hidden_keys.as<std::uint8_t, 1>().data();
}

Index AttentionCall::block_queries() const {
  return std::clamp<Index>(kBlockRows / group(), 1, kBlockQueries);
}

Range AttentionCall::keys_of(const AttentionSpan& span, Index q) const {
  const Index end = span.k_end - (span.q_end - 1 - q);
  Index begin = span.k_begin;
  if (args_.window > 0) begin = std::max(begin, end - args_.window);
  return {begin, std::max(begin, end)};
}

Range AttentionCall::keys_of(const AttentionSpan& span, Range queries) const {
  const Range last = keys_of(span, queries.end - 1);
  return {std::min(keys_of(span, queries.begin).begin, last.end), last.end};
}

Range AttentionCall::queries_of(const AttentionSpan& span, Range keys) const {
  const Index shift = span.k_end - span.q_end;
  const Index begin = std::max(span.q_begin, keys.begin - shift);
  Index end = span.q_end;
  if (args_.window > 0) end = std::min(end, keys.end - 1 - shift + args_.window);
  return {begin, std::max(begin, end)};
}

void AttentionCall::stack(ConstTensor x, Range queries, Index key_head, void* to) const {
  const Index width = group() * channels_;
  for (Index q = queries.begin; q < queries.end; ++q) {
    std::memcpy(element(to, (q - queries.begin) * width, x.dtype()), query_row(x, q, key_head),
                static_cast<std::size_t>(width * size_of(x.dtype())));
  }
}

void AttentionCall::set_visible(const AttentionSpan& span, Range queries, Range keys,
                                std::int32_t* first, std::int32_t* last) const {
  for (Index q = queries.begin; q < queries.end; ++q) {
    const Range seen = keys_of(span, q);
    const Index row = (q - queries.begin) * group();
    const Index begin = std::clamp(seen.begin, keys.begin, keys.end) - keys.begin;
    const Index end = std::clamp(seen.end, keys.begin, keys.end) - keys.begin;
    std::fill_n(first + row, group(), static_cast<std::int32_t>(begin));
    std::fill_n(last + row, group(), static_cast<std::int32_t>(end));
  }
}

Product AttentionCall::times_keys(const void* a, Index rows, ConstTensor x, Range keys,
                                  Index key_head, float* scores, Index ld) const {
  Product p;
  p.m = rows;
  p.n = keys.size();
  p.k = channels_;
  p.a = a;
  p.lda = channels_;
  p.b = key_row(x, keys.begin, key_head);
  p.ldb = key_stride();
  p.b_transposed = true;
  p.c = scores;
  p.ldc = ld;
  p.operands = dtype_;
  return p;
}

void zero_uncovered(Tensor x, std::span<const AttentionSpan> spans, bool of_keys) {
  const Index row_bytes = x.num_bytes() / std::max<Index>(x.dim(0), 1);
  Index covered = 0;
  const auto zero = [&](Index begin, Index end) {
    if (end > begin) {
      std::memset(x.data() + begin * row_bytes, 0,
                  static_cast<std::size_t>((end - begin) * row_bytes));
    }
  };
  for (const AttentionSpan& span : spans) {
    zero(covered, of_keys ? span.k_begin : span.q_begin);
    covered = std::max(covered, of_keys ? span.k_end : span.q_end);
  }
  zero(covered, x.dim(0));
}

namespace {

// Memory and steps of one task of the forward pass.
class ForwardBlock {
 public:
  ForwardBlock(CpuContext& context, const AttentionCall& call, const AttentionArgs& args,
               Index num_rows, int worker);
  void run(const ForwardTask& task, Tensor out, Tensor lse);

 private:
  void attend(const AttentionSpan& span, const ForwardTask& task, Range keys);
  void finish(const ForwardTask& task, Tensor out, Tensor lse);
  // Few rows are widened and go through kernels that stream keys and values.
  bool is_few() const { return rows_ <= kFewRows; }

  CpuContext& context_;
  const AttentionCall& call_;
  const AttentionArgs& args_;
  const AttentionSimd& simd_;
  const ProductSimd& products_;
  Index rows_;
  int worker_;
  void* queries_;
  float *scores_, *sums_of_values_, *maxima_, *sums_, *wide_queries_;
  std::int32_t *first_, *last_;
};

ForwardBlock::ForwardBlock(CpuContext& context, const AttentionCall& call,
                           const AttentionArgs& args, Index num_rows, int worker)
    : context_(context),
      call_(call),
      args_(args),
      simd_(attention_simd(context.set)),
      products_(product_simd(context.set)),
      rows_(num_rows),
      worker_(worker) {
  const Index floats = sizeof(float), size = rows_ * call.channels();
  Workspace& memory = context.worker[worker];
  memory.reset(3 * Workspace::rounded(size * floats) +
               Workspace::rounded(rows_ * kBlockKeys * floats) +
               4 * Workspace::rounded(rows_ * floats));
  queries_ = memory.take_bytes(size * size_of(call.dtype()));
  scores_ = memory.take<float>(rows_ * kBlockKeys);
  sums_of_values_ = memory.take<float>(size);
  maxima_ = memory.take<float>(rows_);
  sums_ = memory.take<float>(rows_);
  first_ = memory.take<std::int32_t>(rows_);
  last_ = memory.take<std::int32_t>(rows_);
  wide_queries_ = is_few() ? memory.take<float>(size) : nullptr;
}

void ForwardBlock::attend(const AttentionSpan& span, const ForwardTask& task, Range keys) {
  call_.set_visible(span, task.queries, keys, first_, last_);
  const ScoreTile tile{.rows = rows_,
                       .keys = keys.size(),
                       .ld = kBlockKeys,
                       .first = first_,
                       .last = last_,
                       .hidden = call_.hidden(keys.begin),
                       .scale = call_.scale()};
  const Index channels = call_.channels();
  const void* k = call_.key_row(args_.k, keys.begin, task.key_head);
  const void* v = call_.key_row(args_.v, keys.begin, task.key_head);
  if (is_few()) {
    if (call_.is_bf16()) {
      products_.few_rows_bf16(wide_queries_, channels, rows_, static_cast<const std::uint16_t*>(k),
                              call_.key_stride(), keys.size(), channels, scores_, kBlockKeys);
    } else {
      products_.few_rows_f32(wide_queries_, channels, rows_, static_cast<const float*>(k),
                             call_.key_stride(), keys.size(), channels, scores_, kBlockKeys);
    }
    simd_.softmax(tile, scores_, false, maxima_, sums_, sums_of_values_, channels);
    simd_.weigh_values(scores_, kBlockKeys, rows_, v, call_.is_bf16(), call_.key_stride(),
                       keys.size(), channels, sums_of_values_);
    return;
  }
  context_.products.run(
      call_.times_keys(queries_, rows_, args_.k, keys, task.key_head, scores_, kBlockKeys),
      worker_);
  simd_.softmax(tile, scores_, call_.is_bf16(), maxima_, sums_, sums_of_values_, channels);
  Product p;
  p.m = rows_;
  p.n = channels;
  p.k = keys.size();
  p.a = scores_;
  p.lda = call_.is_bf16() ? 2 * kBlockKeys : kBlockKeys;
  p.b = v;
  p.ldb = call_.key_stride();
  p.c = sums_of_values_;
  p.ldc = channels;
  p.operands = call_.dtype();
  p.adds = true;
  context_.products.run(p, worker_);
}

void ForwardBlock::finish(const ForwardTask& task, Tensor out, Tensor lse) {
  const Index group = call_.group(), channels = call_.channels();
  float* lse_rows = lse.as<float, 2>().data();
  for (Index row = 0; row < rows_; ++row) {
    const Index q = task.queries.begin + row / group;
    // Nothing was added to the sum of a row that sees no key.
    const bool sees_any = !(sums_[row] == 0.0f);
    const float factor = sees_any ? 1.0f / sums_[row] : 0.0f;
    simd_.write_scaled(
        sums_of_values_ + row * channels, factor, channels, call_.is_bf16(),
        element(call_.query_row(out, q, task.key_head), row % group * channels, out.dtype()));
    lse_rows[q * call_.query_heads() + task.key_head * group + row % group] =
        sees_any ? maxima_[row] * call_.scale() + std::log(sums_[row]) : 0.0f;
  }
}

void ForwardBlock::run(const ForwardTask& task, Tensor out, Tensor lse) {
  const AttentionSpan& span = args_.spans[task.span];
  call_.stack(args_.q, task.queries, task.key_head, queries_);
  if (is_few()) {
    const Index size = rows_ * call_.channels();
    if (call_.is_bf16()) {
      products_.widen_rows(static_cast<const std::uint16_t*>(queries_), size, 1, size,
                           wide_queries_);
    } else {
      std::copy_n(static_cast<const float*>(queries_), size, wide_queries_);
    }
  }
  std::fill_n(sums_of_values_, rows_ * call_.channels(), 0.0f);
  std::fill_n(maxima_, rows_, -std::numeric_limits<float>::infinity());
  std::fill_n(sums_, rows_, 0.0f);
  const Range keys = call_.keys_of(span, task.queries);
  for (Index begin = keys.begin; begin < keys.end; begin += kBlockKeys)
    attend(span, task, {begin, std::min(keys.end, begin + kBlockKeys)});
  finish(task, out, lse);
}

class CpuAttention final : public AttentionKernels {
 public:
  explicit CpuAttention(CpuContextPtr context) : context_(std::move(context)) {}

  void forward(const AttentionArgs& args, Tensor out, Tensor lse) noexcept override;
  void backward(const AttentionArgs& args, ConstTensor out, ConstTensor lse, ConstTensor dout,
                Tensor delta, Tensor dq, Tensor dk, Tensor dv) noexcept override {
    attention_backward(*context_, args, out, lse, dout, delta, dq, dk, dv);
  }

 private:
  CpuContextPtr context_;
};

void CpuAttention::forward(const AttentionArgs& args, Tensor out, Tensor lse) noexcept {
  const AttentionCall call(*context_, args);
  zero_uncovered(out, args.spans, false);
  zero_uncovered(lse, args.spans, false);
  const Index block = call.block_queries();
  Index count = 0;
  for (const AttentionSpan& span : args.spans)
    count += (span.q_end - span.q_begin + block - 1) / block * call.key_heads();
  context_->shared.reset(Workspace::rounded(count * Index{sizeof(ForwardTask)}));
  ForwardTask* tasks = context_->shared.take<ForwardTask>(count);
  Index next = 0;
  for (Index s = 0; s < static_cast<Index>(args.spans.size()); ++s) {
    const AttentionSpan& span = args.spans[s];
    for (Index begin = span.q_begin; begin < span.q_end; begin += block) {
      const Range queries{begin, std::min(span.q_end, begin + block)};
      const Index cost = queries.size() * call.keys_of(span, queries).size();
      for (Index g = 0; g < call.key_heads(); ++g)
        tasks[next++] = {.span = s, .key_head = g, .cost = cost, .queries = queries};
    }
  }
  std::sort(tasks, tasks + count, [](const ForwardTask& left, const ForwardTask& right) {
    return left.cost > right.cost;
  });
  context_->pool.run(count, [&](Index task, int worker) {
    const ForwardTask& work = tasks[task];
    ForwardBlock(*context_, call, args, work.queries.size() * call.group(), worker)
        .run(work, out, lse);
  });
}

}  // namespace

std::unique_ptr<AttentionKernels> make_cpu_attention(CpuContextPtr context) {
  return std::make_unique<CpuAttention>(std::move(context));
}

}  // namespace zaya
