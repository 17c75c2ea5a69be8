// SPDX-License-Identifier: Apache-2.0
//
// Backward attention. A task is one chunk of keys of one span and key head: for each block of keys
// it walks the queries that may see them, in order, and sums
//
//   dv += p^T dout;   ds = p (dout v^T - delta) / sqrt(C);   dk += ds^T q;   dq += ds k
//
// dk and dv rows belong to one task. A span of several chunks has one dq sum per chunk, added in
// the order of chunks at the end; chunks depend on the span's length only.
#include <algorithm>
#include <cstring>

#include "backend/cpu/attention_call.h"

namespace zaya {

namespace {

constexpr Index kChunkKeys = 1024;
constexpr Index kBlockKeys = 256;
constexpr Index kFloat = sizeof(float);

struct BackwardTask {
  Index span = 0, key_head = 0, cost = 0;
  Range keys, queries;
  // Sum of dq, [queries * group, C]; null where the task writes dq itself.
  float* dq = nullptr;
};

struct Gradients {
  ConstTensor lse, dout, delta;
  Tensor dq, dk, dv;
};

class BackwardChunk {
 public:
  BackwardChunk(CpuContext& context, const AttentionCall& call, const AttentionArgs& args,
                const Gradients& gradients, const BackwardTask& task, int worker);
  void run();

 private:
  void run_keys(Range keys);
  void run_tile(Range keys, Range block, Range queries);
  void load_rows(Range queries);
  // c += a^T b over the stacked rows of a tile: keys by channels.
  void add_to_keys(const float* a, Index rows, Range keys, const void* b, float* c);
  void write_keys(Range keys, const float* sums, Tensor to);

  CpuContext& context_;
  const AttentionCall& call_;
  const AttentionArgs& args_;
  const Gradients& gradients_;
  const BackwardTask& task_;
  const AttentionSpan& span_;
  const AttentionSimd& simd_;
  int worker_;
  Index max_rows_;
  void *q_, *dout_;
  float *scores_, *dscores_, *dk_, *dv_, *lse_, *delta_, *dq_;
  std::int32_t *first_, *last_;
};

BackwardChunk::BackwardChunk(CpuContext& context, const AttentionCall& call,
                             const AttentionArgs& args, const Gradients& gradients,
                             const BackwardTask& task, int worker)
    : context_(context),
      call_(call),
      args_(args),
      gradients_(gradients),
      task_(task),
      span_(args.spans[task.span]),
      simd_(attention_simd(context.set)),
      worker_(worker),
      max_rows_(std::min(task.queries.size(), call.block_queries()) * call.group()) {
  const Index channels = call.channels();
  const Index block_keys = std::min(kBlockKeys, task.keys.size());
  const Index dq_size = task.dq == nullptr ? task.queries.size() * call.group() * channels : 0;
  const Index row_bytes = max_rows_ * channels * size_of(call.dtype());
  Workspace& memory = context.worker[worker];
  memory.reset(2 * Workspace::rounded(row_bytes) +
               2 * Workspace::rounded(max_rows_ * kBlockKeys * kFloat) +
               2 * Workspace::rounded(block_keys * channels * kFloat) +
               4 * Workspace::rounded(max_rows_ * kFloat) + Workspace::rounded(dq_size * kFloat));
  q_ = memory.take_bytes(row_bytes);
  dout_ = memory.take_bytes(row_bytes);
  scores_ = memory.take<float>(max_rows_ * kBlockKeys);
  dscores_ = memory.take<float>(max_rows_ * kBlockKeys);
  dk_ = memory.take<float>(block_keys * channels);
  dv_ = memory.take<float>(block_keys * channels);
  lse_ = memory.take<float>(max_rows_);
  delta_ = memory.take<float>(max_rows_);
  first_ = memory.take<std::int32_t>(max_rows_);
  last_ = memory.take<std::int32_t>(max_rows_);
  dq_ = task.dq == nullptr ? memory.take<float>(dq_size) : task.dq;
}

void BackwardChunk::load_rows(Range queries) {
  call_.stack(args_.q, queries, task_.key_head, q_);
  call_.stack(gradients_.dout, queries, task_.key_head, dout_);
  const Index group = call_.group();
  const float* lse = gradients_.lse.as<float, 2>().data();
  const float* delta = gradients_.delta.as<float, 2>().data();
  for (Index q = queries.begin; q < queries.end; ++q) {
    const Index from = q * call_.query_heads() + task_.key_head * group;
    const Index to = (q - queries.begin) * group;
    std::copy_n(lse + from, group, lse_ + to);
    std::copy_n(delta + from, group, delta_ + to);
  }
}

void BackwardChunk::add_to_keys(const float* a, Index rows, Range keys, const void* b, float* c) {
  Product p;
  p.m = keys.size();
  p.n = call_.channels();
  p.k = rows;
  p.a = a;
  p.lda = call_.is_bf16() ? 2 * kBlockKeys : kBlockKeys;
  p.a_transposed = true;
  p.b = b;
  p.ldb = call_.channels();
  p.c = c;
  p.ldc = call_.channels();
  p.operands = call_.dtype();
  p.adds = true;
  context_.products.run(p, worker_);
}

// `keys` are those of the block that any of the queries sees.
void BackwardChunk::run_tile(Range keys, Range block, Range queries) {
  const Index rows = queries.size() * call_.group(), channels = call_.channels();
  load_rows(queries);
  call_.set_visible(span_, queries, keys, first_, last_);
  context_.products.run(
      call_.times_keys(q_, rows, args_.k, keys, task_.key_head, scores_, kBlockKeys), worker_);
  context_.products.run(
      call_.times_keys(dout_, rows, args_.v, keys, task_.key_head, dscores_, kBlockKeys), worker_);
  const ScoreTile tile{.rows = rows,
                       .keys = keys.size(),
                       .ld = kBlockKeys,
                       .first = first_,
                       .last = last_,
                       .hidden = call_.hidden(keys.begin),
                       .scale = call_.scale()};
  simd_.softmax_backward(tile, scores_, dscores_, call_.is_bf16(), lse_, delta_);
  const Index offset = (keys.begin - block.begin) * channels;
  add_to_keys(scores_, rows, keys, dout_, dv_ + offset);
  add_to_keys(dscores_, rows, keys, q_, dk_ + offset);
  Product p;
  p.m = rows;
  p.n = channels;
  p.k = keys.size();
  p.a = dscores_;
  p.lda = call_.is_bf16() ? 2 * kBlockKeys : kBlockKeys;
  p.b = call_.key_row(args_.k, keys.begin, task_.key_head);
  p.ldb = call_.key_stride();
  p.c = dq_ + (queries.begin - task_.queries.begin) * call_.group() * channels;
  p.ldc = channels;
  p.operands = call_.dtype();
  p.adds = true;
  context_.products.run(p, worker_);
}

void BackwardChunk::write_keys(Range keys, const float* sums, Tensor to) {
  const Index channels = call_.channels();
  for (Index k = keys.begin; k < keys.end; ++k) {
    simd_.write_scaled(sums + (k - keys.begin) * channels, 1.0f, channels, call_.is_bf16(),
                       call_.key_row(to, k, task_.key_head));
  }
}

void BackwardChunk::run_keys(Range block) {
  std::fill_n(dk_, block.size() * call_.channels(), 0.0f);
  std::fill_n(dv_, block.size() * call_.channels(), 0.0f);
  const Range seeing = call_.queries_of(span_, block);
  const Index step = call_.block_queries();
  for (Index begin = seeing.begin; begin < seeing.end; begin += step) {
    const Range queries{begin, std::min(seeing.end, begin + step)};
    const Range seen = call_.keys_of(span_, queries);
    const Range keys{std::max(seen.begin, block.begin), std::min(seen.end, block.end)};
    if (keys.size() > 0) run_tile(keys, block, queries);
  }
  write_keys(block, dk_, gradients_.dk);
  write_keys(block, dv_, gradients_.dv);
}

void BackwardChunk::run() {
  const Index width = call_.group() * call_.channels();
  std::fill_n(dq_, task_.queries.size() * width, 0.0f);
  for (Index begin = task_.keys.begin; begin < task_.keys.end; begin += kBlockKeys)
    run_keys({begin, std::min(task_.keys.end, begin + kBlockKeys)});
  if (task_.dq != nullptr) return;
  for (Index q = task_.queries.begin; q < task_.queries.end; ++q) {
    simd_.write_scaled(dq_ + (q - task_.queries.begin) * width, 1.0f, width, call_.is_bf16(),
                       call_.query_row(gradients_.dq, q, task_.key_head));
  }
}

Index num_chunks(const AttentionSpan& span) {
  return std::max<Index>((span.k_end - span.k_begin + kChunkKeys - 1) / kChunkKeys, 1);
}

BackwardTask make_task(const AttentionCall& call, const AttentionSpan& span, Index index,
                       Index key_head, Index chunk) {
  BackwardTask task;
  task.span = index;
  task.key_head = key_head;
  task.keys.begin = span.k_begin + chunk * kChunkKeys;
  task.keys.end = std::min(span.k_end, task.keys.begin + kChunkKeys);
  const Range seeing = call.queries_of(span, task.keys);
  const bool is_only = num_chunks(span) == 1;
  task.queries = is_only ? Range{span.q_begin, span.q_end} : seeing;
  task.cost = seeing.size() * task.keys.size();
  return task;
}

// dq of spans of several chunks: the sums of its tasks, which follow each other, in order.
void add_chunks(CpuContext& context, const AttentionCall& call, std::span<const BackwardTask> tasks,
                Range queries, Tensor dq) {
  const Index width = call.group() * call.channels(), block = call.block_queries();
  const ProductSimd& simd = product_simd(context.set);
  context.pool.run((queries.size() + block - 1) / block, [&](Index index, int worker) {
    const Index begin = queries.begin + index * block;
    Workspace& memory = context.worker[worker];
    memory.reset(Workspace::rounded(width * kFloat));
    float* sum = memory.take<float>(width);
    for (Index q = begin; q < std::min(queries.end, begin + block); ++q) {
      std::fill_n(sum, width, 0.0f);
      for (const BackwardTask& task : tasks) {
        if (q >= task.queries.begin && q < task.queries.end)
          simd.add_to(task.dq + (q - task.queries.begin) * width, width, sum);
      }
      attention_simd(context.set)
          .write_scaled(sum, 1.0f, width, call.is_bf16(), call.query_row(dq, q, tasks[0].key_head));
    }
  });
}

void compute_delta(CpuContext& context, const AttentionCall& call, ConstTensor out,
                   ConstTensor dout, Tensor delta) {
  const ProductSimd& simd = product_simd(context.set);
  const Index heads = call.query_heads(), channels = call.channels();
  float* sums = delta.as<float, 2>().data();
  constexpr Index kRows = 64;
  context.pool.run((out.dim(0) + kRows - 1) / kRows, [&](Index task, int) {
    const Index end = std::min(out.dim(0), (task + 1) * kRows) * heads;
    for (Index i = task * kRows * heads; i < end; ++i) {
      sums[i] =
          simd.dot(element(out.data(), i * channels, out.dtype()),
                   element(dout.data(), i * channels, dout.dtype()), call.is_bf16(), channels);
    }
  });
}

}  // namespace

void attention_backward(CpuContext& context, const AttentionArgs& args, ConstTensor out,
                        ConstTensor lse, ConstTensor dout, Tensor delta, Tensor dq, Tensor dk,
                        Tensor dv) {
  const AttentionCall call(context, args);
  zero_uncovered(dq, args.spans, false);
  zero_uncovered(dk, args.spans, true);
  zero_uncovered(dv, args.spans, true);
  compute_delta(context, call, out, dout, delta);
  Index count = 0, dq_bytes = 0;
  for (const AttentionSpan& span : args.spans) {
    for (Index chunk = 0; chunk < num_chunks(span); ++chunk) {
      const BackwardTask task = make_task(call, span, 0, 0, chunk);
      count += call.key_heads();
      if (num_chunks(span) > 1)
        dq_bytes += call.key_heads() * Workspace::rounded(task.queries.size() * call.group() *
                                                          call.channels() * kFloat);
    }
  }
  context.shared.reset(Workspace::rounded(count * Index{sizeof(BackwardTask)}) +
                       Workspace::rounded(count * Index{sizeof(Index)}) + dq_bytes);
  const std::span tasks(context.shared.take<BackwardTask>(count), static_cast<std::size_t>(count));
  Index* order = context.shared.take<Index>(count);
  Index next = 0;
  for (Index s = 0; s < static_cast<Index>(args.spans.size()); ++s) {
    const AttentionSpan& span = args.spans[s];
    for (Index g = 0; g < call.key_heads(); ++g) {
      for (Index chunk = 0; chunk < num_chunks(span); ++chunk, ++next) {
        tasks[next] = make_task(call, span, s, g, chunk);
        order[next] = next;
        if (num_chunks(span) > 1)
          tasks[next].dq = context.shared.take<float>(tasks[next].queries.size() * call.group() *
                                                      call.channels());
      }
    }
  }
  std::sort(order, order + count,
            [&](Index left, Index right) { return tasks[left].cost > tasks[right].cost; });
  const Gradients gradients{.lse = lse, .dout = dout, .delta = delta, .dq = dq, .dk = dk, .dv = dv};
  context.pool.run(count, [&](Index i, int worker) {
    BackwardChunk(context, call, args, gradients, tasks[order[i]], worker).run();
  });
  for (Index first = 0; first < count;) {
    const AttentionSpan& span = args.spans[tasks[first].span];
    const Index chunks = num_chunks(span);
    if (chunks > 1)
      add_chunks(context, call, tasks.subspan(first, chunks), {span.q_begin, span.q_end}, dq);
    first += chunks;
  }
}

}  // namespace zaya
