// SPDX-License-Identifier: Apache-2.0
//
// Experts: rows sorted by expert, and the products of all experts as one queue of tiles, largest
// first, so that uneven loads keep all threads busy.
#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/cpu/product_simd.h"
#include "backend/cpu/swiglu_simd.h"
#include "backend/cpu/tiles.h"

namespace zaya {

namespace {

constexpr Index kRowsPerTask = 64;
constexpr Index kWantedTiles = 16;

using Ints = View<const std::int32_t, 1>;

// One tile of one expert's product; cost orders the queue.
struct ExpertTile {
  Index expert = 0;
  Tile tile;
  Index cost = 0;
};

// Rows [begin, end) of an expert, padding included, and its tokens.
struct ExpertRows {
  Index begin = 0, end = 0, tokens = 0;
};

class CpuExperts final : public ExpertKernels {
 public:
  explicit CpuExperts(CpuContextPtr context)
      : context_(std::move(context)),
        simd_(product_simd(context_->set)),
        swiglu_(swiglu_simd(context_->set)) {}

  void dispatch(ConstTensor choice, Index num_experts, const RowPlan& plan) noexcept override;
  void gather(ConstTensor x, const RowPlan& plan, Tensor rows) noexcept override;
  void grouped_forward(ConstTensor x, ConstTensor w, const RowPlan& plan,
                       Tensor y) noexcept override;
  void grouped_backward_input(ConstTensor dy, ConstTensor w, const RowPlan& plan,
                              Tensor dx) noexcept override;
  void grouped_backward_weight(ConstTensor dy, ConstTensor x, const RowPlan& plan,
                               Tensor dw) noexcept override;
  void swiglu_forward(ConstTensor gu, const RowPlan& plan, Tensor a) noexcept override;
  void swiglu_backward(ConstTensor gu, ConstTensor da, ConstTensor weight, const RowPlan& plan,
                       Tensor dgu, Tensor wa, Tensor dweight) noexcept override;
  void combine_forward(ConstTensor y, ConstTensor x, ConstTensor weight, const RowPlan& plan,
                       bool skip_is_identity, Tensor out) noexcept override;
  void combine_backward(ConstTensor drows, ConstTensor dout, ConstTensor x, ConstTensor weight,
                        const RowPlan& plan, bool skip_is_identity, Tensor dx,
                        Tensor dweight) noexcept override;

 private:
  static Index num_experts(const RowPlan& plan) { return plan.offsets.dim(0) - 1; }
  static ExpertRows rows_of(const RowPlan& plan, Index expert);
  bool is_bf16() const { return context_->compute() == DType::bf16; }

  void grouped_product(ConstTensor a, ConstTensor w, bool w_transposed, const RowPlan& plan,
                       Tensor y);
  Index queue_row_tiles(const Product& whole, const RowPlan& plan, std::span<ExpertTile> queue);
  void run_few_rows(const Product& whole, const ExpertTile& task, Index tokens, int worker);
  template <class Body>
  void over_rows(Index count, Body body);

  CpuContextPtr context_;
  const ProductSimd& simd_;
  const SwigluSimd& swiglu_;
};

ExpertRows CpuExperts::rows_of(const RowPlan& plan, Index expert) {
  const Ints offsets = ConstTensor(plan.offsets).as<std::int32_t, 1>();
  return {.begin = offsets[expert],
          .end = offsets[expert + 1],
          .tokens = plan.loads.as<std::int64_t, 1>()[expert]};
}

// Calls body(begin, end) for blocks of rows.
template <class Body>
void CpuExperts::over_rows(Index count, Body body) {
  context_->pool.run((count + kRowsPerTask - 1) / kRowsPerTask, [&](Index task, int) {
    const Index begin = task * kRowsPerTask;
    body(begin, std::min(count, begin + kRowsPerTask));
  });
}

void CpuExperts::dispatch(ConstTensor choice, Index experts, const RowPlan& plan) noexcept {
  const Ints chosen = choice.as<std::int32_t, 1>();
  const auto row_of_token = plan.row_of_token.as<std::int32_t, 1>();
  const auto token_of_row = plan.token_of_row.as<std::int32_t, 1>();
  const auto offsets = plan.offsets.as<std::int32_t, 1>();
  const auto loads = plan.loads.as<std::int64_t, 1>();
  std::fill(loads.begin(), loads.end(), 0);
  for (const std::int32_t c : chosen) ++loads[c];
  offsets[0] = 0;
  for (Index e = 0; e < experts; ++e) {
    const Index padded = (loads[e] + kRowPadding - 1) / kRowPadding * kRowPadding;
    offsets[e + 1] = static_cast<std::int32_t>(offsets[e] + padded);
  }
  std::fill(token_of_row.begin(), token_of_row.end(), -1);
  // While rows are given out, loads counts down what is left of each expert.
  for (Index t = chosen.dim(0) - 1; t >= 0; --t) {
    const std::int32_t e = chosen[t];
    row_of_token[t] = -1;
    if (e == experts) continue;
    const Index row = offsets[e] + --loads[e];
    row_of_token[t] = static_cast<std::int32_t>(row);
    token_of_row[row] = static_cast<std::int32_t>(t);
  }
  for (Index e = 0; e < experts; ++e) loads[e] = 0;
  for (const std::int32_t c : chosen) loads[c] += c < experts ? 1 : 0;
}

void CpuExperts::gather(ConstTensor x, const RowPlan& plan, Tensor rows) noexcept {
  const Ints token_of_row = ConstTensor(plan.token_of_row).as<std::int32_t, 1>();
  const Index used = rows_of(plan, num_experts(plan) - 1).end;
  const std::size_t row_bytes = static_cast<std::size_t>(x.columns() * size_of(x.dtype()));
  over_rows(used, [&](Index begin, Index end) {
    for (Index r = begin; r < end; ++r) {
      const Index t = token_of_row[r];
      void* to = element(rows.data(), r * rows.row_stride(), rows.dtype());
      if (t < 0) {
        std::memset(to, 0, row_bytes);
      } else {
        std::memcpy(to, element(x.data(), t * x.row_stride(), x.dtype()), row_bytes);
      }
    }
  });
}

// Fills the queue with tiles over the rows of all experts and returns how many there are; with an
// empty queue only counts. Experts of few tokens get narrow tiles that stream their weights.
Index CpuExperts::queue_row_tiles(const Product& whole, const RowPlan& plan,
                                  std::span<ExpertTile> queue) {
  TileLimits limits;
  Index count = 0;
  const auto count_tiles = [&](bool stores) {
    count = 0;
    for (Index e = 0; e < num_experts(plan); ++e) {
      const ExpertRows rows = rows_of(plan, e);
      const bool is_few = whole.b_transposed && rows.tokens <= few_rows_limit(*context_);
      const Cut down(rows.end - rows.begin, limits.rows);
      const Cut across(whole.n, is_few ? few_rows_columns(whole) : limits.columns);
      if (stores) {
        for (Index i = 0; i < down.count * across.count; ++i) {
          const Index r = i / across.count, c = i % across.count;
          const Tile tile{.row = rows.begin + down.begin(r),
                          .column = across.begin(c),
                          .rows = down.end(r) - down.begin(r),
                          .columns = across.end(c) - across.begin(c)};
          queue[count + i] = {.expert = e, .tile = tile, .cost = tile.rows * tile.columns};
        }
      }
      count += down.count * across.count;
    }
    return count;
  };
  while (count_tiles(false) < kWantedTiles && limits.shrink()) {
  }
  if (!queue.empty()) count_tiles(true);
  return count;
}

void CpuExperts::run_few_rows(const Product& whole, const ExpertTile& task, Index tokens,
                              int worker) {
  Product p = whole;
  p.m = tokens;
  p.a = element(p.a, task.tile.row * p.lda, p.operands);
  p.c = element(p.c, task.tile.row * p.ldc, p.result);
  run_few_rows_tile(*context_, p, task.tile.column, task.tile.columns, nullptr, worker);
  for (Index i = tokens; i < task.tile.rows; ++i) {
    std::memset(element(p.c, i * p.ldc + task.tile.column, p.result), 0,
                static_cast<std::size_t>(task.tile.columns * size_of(p.result)));
  }
}

// y[r] = a[r] op(w[e]) for the rows of each expert e.
void CpuExperts::grouped_product(ConstTensor a, ConstTensor w, bool w_transposed,
                                 const RowPlan& plan, Tensor y) {
  const ConstTensor w0(w.data(), w.dtype(), Shape{w.dim(1), w.dim(2)});
  const Product whole = product_of(a, false, w0, w_transposed, y);
  const Index num_tiles = queue_row_tiles(whole, plan, {});
  context_->shared.reset(Workspace::rounded(num_tiles * Index{sizeof(ExpertTile)}));
  const std::span queue(context_->shared.take<ExpertTile>(num_tiles),
                        static_cast<std::size_t>(num_tiles));
  if (num_tiles == 0) return;
  queue_row_tiles(whole, plan, queue);
  std::sort(queue.begin(), queue.end(),
            [](const ExpertTile& left, const ExpertTile& right) { return left.cost > right.cost; });
  context_->pool.run(num_tiles, [&](Index task, int worker) {
    const ExpertTile& next = queue[task];
    Product p = whole;
    p.b = element(p.b, next.expert * w0.count(), p.operands);
    const Index tokens = rows_of(plan, next.expert).tokens;
    if (w_transposed && tokens <= few_rows_limit(*context_)) {
      run_few_rows(p, next, tokens, worker);
    } else {
      run_tile(*context_, p, next.tile, nullptr, worker);
    }
  });
}

void CpuExperts::grouped_forward(ConstTensor x, ConstTensor w, const RowPlan& plan,
                                 Tensor y) noexcept {
  grouped_product(x, w, true, plan, y);
}

void CpuExperts::grouped_backward_input(ConstTensor dy, ConstTensor w, const RowPlan& plan,
                                        Tensor dx) noexcept {
  grouped_product(dy, w, false, plan, dx);
}

void CpuExperts::grouped_backward_weight(ConstTensor dy, ConstTensor x, const RowPlan& plan,
                                         Tensor dw) noexcept {
  const Index experts = num_experts(plan);
  const Tensor dw0(dw.data(), dw.dtype(), Shape{dw.dim(1), dw.dim(2)});
  Product whole = product_of(dy, true, x, false, dw0);
  whole.adds = true;
  TileLimits limits;
  const auto num_tiles_of_one = [&] {
    return Cut(whole.m, limits.rows).count * Cut(whole.n, limits.columns).count;
  };
  while (num_tiles_of_one() * experts < kWantedTiles && limits.shrink()) {
  }
  const Cut down(whole.m, limits.rows), across(whole.n, limits.columns);
  const Index per_expert = num_tiles_of_one();
  // Experts by rows, most first: their tiles have equal sizes.
  context_->shared.reset(Workspace::rounded(experts * Index{sizeof(Index)}));
  Index* order = context_->shared.take<Index>(experts);
  for (Index e = 0; e < experts; ++e) order[e] = e;
  std::sort(order, order + experts, [&](Index left, Index right) {
    const ExpertRows a = rows_of(plan, left), b = rows_of(plan, right);
    return a.end - a.begin > b.end - b.begin;
  });
  context_->pool.run(experts * per_expert, [&](Index task, int worker) {
    const Index e = order[task / per_expert], i = task % per_expert;
    const ExpertRows rows = rows_of(plan, e);
    const Index r = i / across.count, c = i % across.count;
    Product p = whole;
    p.k = rows.end - rows.begin;
    p.a = element(p.a, rows.begin * p.lda, p.operands);
    p.b = element(p.b, rows.begin * p.ldb, p.operands);
    p.c = element(p.c, e * dw0.count(), p.result);
    const Tile tile{.row = down.begin(r),
                    .column = across.begin(c),
                    .rows = down.end(r) - down.begin(r),
                    .columns = across.end(c) - across.begin(c)};
    run_tile(*context_, p, tile, nullptr, worker);
  });
}

void CpuExperts::swiglu_forward(ConstTensor gu, const RowPlan& plan, Tensor a) noexcept {
  const Index used = rows_of(plan, num_experts(plan) - 1).end;
  over_rows(used, [&](Index begin, Index end) {
    for (Index r = begin; r < end; ++r) {
      swiglu_.forward(element(gu.data(), r * gu.row_stride(), gu.dtype()), a.columns(), is_bf16(),
                      element(a.data(), r * a.row_stride(), a.dtype()));
    }
  });
}

void CpuExperts::swiglu_backward(ConstTensor gu, ConstTensor da, ConstTensor weight,
                                 const RowPlan& plan, Tensor dgu, Tensor wa,
                                 Tensor dweight) noexcept {
  const Ints token_of_row = ConstTensor(plan.token_of_row).as<std::int32_t, 1>();
  const auto weights = weight.as<float, 1>();
  const auto dweights = dweight.as<float, 1>();
  const Index used = rows_of(plan, num_experts(plan) - 1).end, width = wa.columns();
  const std::size_t row_bytes = static_cast<std::size_t>(width * size_of(wa.dtype()));
  over_rows(used, [&](Index begin, Index end) {
    for (Index r = begin; r < end; ++r) {
      const Index t = token_of_row[r];
      void* dgu_row = element(dgu.data(), r * dgu.row_stride(), dgu.dtype());
      void* wa_row = element(wa.data(), r * wa.row_stride(), wa.dtype());
      if (t < 0) {
        std::memset(dgu_row, 0, 2 * row_bytes);
        std::memset(wa_row, 0, row_bytes);
        continue;
      }
      dweights[t] = swiglu_.backward(element(gu.data(), r * gu.row_stride(), gu.dtype()),
                                     element(da.data(), r * da.row_stride(), da.dtype()),
                                     weights[t], width, is_bf16(), dgu_row, wa_row);
    }
  });
}

void CpuExperts::combine_forward(ConstTensor y, ConstTensor x, ConstTensor weight,
                                 const RowPlan& plan, bool skip_is_identity, Tensor out) noexcept {
  const Ints row_of_token = ConstTensor(plan.row_of_token).as<std::int32_t, 1>();
  const auto weights = weight.as<float, 1>();
  const Index width = out.columns();
  over_rows(out.rows(), [&](Index begin, Index end) {
    for (Index t = begin; t < end; ++t) {
      const Index r = row_of_token[t];
      void* to = element(out.data(), t * out.row_stride(), out.dtype());
      if (r >= 0) {
        simd_.scale_row(element(y.data(), r * y.row_stride(), y.dtype()), is_bf16(), weights[t],
                        width, to);
      } else if (skip_is_identity) {
        simd_.scale_row(element(x.data(), t * x.row_stride(), x.dtype()), is_bf16(), weights[t],
                        width, to);
      } else {
        std::memset(to, 0, static_cast<std::size_t>(width * size_of(out.dtype())));
      }
    }
  });
}

void CpuExperts::combine_backward(ConstTensor drows, ConstTensor dout, ConstTensor x,
                                  ConstTensor weight, const RowPlan& plan, bool skip_is_identity,
                                  Tensor dx, Tensor dweight) noexcept {
  const Ints row_of_token = ConstTensor(plan.row_of_token).as<std::int32_t, 1>();
  const auto weights = weight.as<float, 1>();
  const auto dweights = dweight.as<float, 1>();
  const Index width = dx.columns();
  const std::size_t row_bytes = static_cast<std::size_t>(width * size_of(dx.dtype()));
  over_rows(dx.rows(), [&](Index begin, Index end) {
    for (Index t = begin; t < end; ++t) {
      const Index r = row_of_token[t];
      void* to = element(dx.data(), t * dx.row_stride(), dx.dtype());
      if (r >= 0) {
        std::memcpy(to, element(drows.data(), r * drows.row_stride(), drows.dtype()), row_bytes);
      } else if (skip_is_identity) {
        const void* dout_row = element(dout.data(), t * dout.row_stride(), dout.dtype());
        const void* x_row = element(x.data(), t * x.row_stride(), x.dtype());
        dweights[t] = simd_.dot(x_row, dout_row, is_bf16(), width);
        simd_.scale_row(dout_row, is_bf16(), weights[t], width, to);
      } else {
        dweights[t] = 0;
        std::memset(to, 0, row_bytes);
      }
    }
  });
}

}  // namespace

std::unique_ptr<ExpertKernels> make_cpu_experts(CpuContextPtr context) {
  return std::make_unique<CpuExperts>(std::move(context));
}

}  // namespace zaya
