// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/tiles.h"

#include <algorithm>

#include "backend/cpu/product_simd.h"

namespace zaya {

namespace {

// Tiles for eight threads at least: smaller ones spend more of their time on packing operands.
constexpr Index kWantedTiles = 8;

Index divide_up(Index a, Index b) { return (a + b - 1) / b; }

}  // namespace

Cut::Cut(Index range_length, Index longest) : length(range_length) {
  if (length == 0) return;
  const Index parts = divide_up(length, longest);
  part = divide_up(divide_up(length, parts), 16) * 16;
  count = divide_up(length, part);
}

bool TileLimits::shrink() {
  if (columns > rows && columns > 128) {
    columns /= 2;
  } else if (rows > 64) {
    rows /= 2;
  } else {
    return false;
  }
  return true;
}

TileLimits tile_limits(Index m, Index n) {
  TileLimits limits;
  while (divide_up(m, limits.rows) * divide_up(n, limits.columns) < kWantedTiles &&
         limits.shrink()) {
  }
  return limits;
}

Index few_rows_limit(const CpuContext& context) {
  const bool has_instruction =
      context.compute() == DType::bf16 && context.set == InstructionSet::avx512_bf16;
  return has_instruction ? kFewRows / 2 : kFewRows;
}

Product product_of_tile(const Product& whole, const Tile& tile) {
  Product p = whole;
  p.m = tile.rows;
  p.n = tile.columns;
  p.a = element(p.a, tile.row * (p.a_transposed ? 1 : p.lda), p.operands);
  p.b = element(p.b, tile.column * (p.b_transposed ? p.ldb : 1), p.operands);
  p.c = element(p.c, tile.row * p.ldc + tile.column, p.result);
  return p;
}

void run_tile(CpuContext& context, const Product& whole, const Tile& tile, const FillTile* fill,
              int worker) {
  Product p = product_of_tile(whole, tile);
  if (fill == nullptr) {
    context.products.run(p, worker);
    return;
  }
  p.adds = true;
  if (whole.result == DType::f32) {
    (*fill)(tile, static_cast<float*>(p.c), p.ldc);
    context.products.run(p, worker);
    return;
  }
  Workspace& memory = context.worker[worker];
  memory.reset(Workspace::rounded(tile.rows * tile.columns * Index{sizeof(float)}));
  float* sums = memory.take<float>(tile.rows * tile.columns);
  auto* result = static_cast<std::uint16_t*>(p.c);
  (*fill)(tile, sums, tile.columns);
  p.c = sums;
  p.ldc = tile.columns;
  p.result = DType::f32;
  context.products.run(p, worker);
  product_simd(context.set).round_rows(sums, tile.rows, tile.columns, result, whole.ldc);
}

void run_product(CpuContext& context, const Product& whole, const FillTile* fill) {
  const TileLimits limits = tile_limits(whole.m, whole.n);
  const Cut rows(whole.m, limits.rows), columns(whole.n, limits.columns);
  context.pool.run(rows.count * columns.count, [&](Index task, int worker) {
    const Index i = task / columns.count, j = task % columns.count;
    const Tile tile{.row = rows.begin(i),
                    .column = columns.begin(j),
                    .rows = rows.end(i) - rows.begin(i),
                    .columns = columns.end(j) - columns.begin(j)};
    run_tile(context, whole, tile, fill, worker);
  });
}

Index few_rows_columns(const Product& whole) {
  // About 128 KiB of weights, but at least 8 tiles where the result is wide enough.
  const Index by_size = (Index{128} << 10) / std::max<Index>(whole.k * size_of(whole.operands), 1);
  const Index wanted = std::min(by_size, divide_up(whole.n, 8));
  return std::clamp<Index>(divide_up(wanted, 16) * 16, 16, 512);
}

void run_few_rows_tile(CpuContext& context, const Product& whole, Index column, Index columns,
                       const float* bias, int worker) {
  const ProductSimd& simd = product_simd(context.set);
  const Product p =
      product_of_tile(whole, {.row = 0, .column = column, .rows = whole.m, .columns = columns});
  const Index floats = sizeof(float);
  Workspace& memory = context.worker[worker];
  memory.reset(Workspace::rounded(p.m * p.k * floats) + Workspace::rounded(p.m * p.n * floats));
  float* x = memory.take<float>(p.m * p.k);
  float* y = memory.take<float>(p.m * p.n);
  if (p.operands == DType::bf16) {
    simd.widen_rows(static_cast<const std::uint16_t*>(p.a), p.lda, p.m, p.k, x);
    simd.few_rows_bf16(x, p.k, p.m, static_cast<const std::uint16_t*>(p.b), p.ldb, p.n, p.k, y,
                       p.n);
  } else {
    simd.few_rows_f32(static_cast<const float*>(p.a), p.lda, p.m, static_cast<const float*>(p.b),
                      p.ldb, p.n, p.k, y, p.n);
  }
  if (bias != nullptr) simd.add_to_rows(bias + column, p.m, p.n, y);
  if (p.result == DType::bf16) {
    simd.round_rows(y, p.m, p.n, static_cast<std::uint16_t*>(p.c), p.ldc);
  } else {
    for (Index i = 0; i < p.m; ++i)
      std::copy_n(y + i * p.n, p.n, static_cast<float*>(p.c) + i * p.ldc);
  }
}

Product product_of(ConstTensor a, bool a_transposed, ConstTensor b, bool b_transposed, Tensor c) {
  Product p;
  p.m = c.rows();
  p.n = c.columns();
  p.k = a_transposed ? a.rows() : a.columns();
  p.a = a.data();
  p.lda = a.row_stride();
  p.a_transposed = a_transposed;
  p.b = b.data();
  p.ldb = b.row_stride();
  p.b_transposed = b_transposed;
  p.c = c.data();
  p.ldc = c.row_stride();
  p.operands = a.dtype();
  p.result = c.dtype();
  return p;
}

}  // namespace zaya
