// SPDX-License-Identifier: Apache-2.0
//
// Large products as tiles on the pool. How a product is cut depends on its shape only, and no sum
// is cut, so the bits do not depend on the number of threads.
#pragma once

#include <cstddef>

#include "backend/cpu/context.h"
#include "base/function_ref.h"

namespace zaya {

// Most rows of a product that own kernels compute: it is limited by the reading of its weights.
inline constexpr Index kFewRows = 16;
// The same for one backend: the bf16 instruction pays earlier.
Index few_rows_limit(const CpuContext& context);

// How a range is cut into nearly equal parts, each a multiple of 16 long except the last.
struct Cut {
  Index length = 0, part = 0, count = 0;
  // `longest` is a multiple of 16.
  Cut(Index range_length, Index longest);
  Index begin(Index i) const { return i * part; }
  Index end(Index i) const { return i + 1 == count ? length : (i + 1) * part; }
};

// Largest extents of a tile.
struct TileLimits {
  Index rows = 256, columns = 512;
  // Smaller ones for the next try; false when they are the smallest already.
  bool shrink();
};
// Limits that give an [m, n] result enough tiles to keep many threads busy.
TileLimits tile_limits(Index m, Index n);

// A part of a result: rows [row, row + rows), columns [column, column + columns).
struct Tile {
  Index row = 0, column = 0, rows = 0, columns = 0;
};

// The product of one tile of `whole`.
Product product_of_tile(const Product& whole, const Tile& tile);

// Writes the start value of a tile of f32 sums, rows ld apart.
using FillTile = FunctionRef<void(const Tile& tile, float* sums, Index ld)>;

// Runs one tile. With `fill` the result is fill + product, rounded once to the type of the result;
// `fill` null: the product alone, or added to an f32 result as `whole.adds` says.
void run_tile(CpuContext& context, const Product& whole, const Tile& tile, const FillTile* fill,
              int worker);

// Runs a whole product on the pool.
void run_product(CpuContext& context, const Product& whole, const FillTile* fill);

// y[m, columns of tile] = x w^T + bias for at most kFewRows rows. `whole` has plain a and
// transposed b. bias null: none.
void run_few_rows_tile(CpuContext& context, const Product& whole, Index column, Index columns,
                       const float* bias, int worker);
// Columns of one such tile.
Index few_rows_columns(const Product& whole);

// The product of operands in tensors: a [m, k] or [k, m], b [k, n] or [n, k], c [m, n].
Product product_of(ConstTensor a, bool a_transposed, ConstTensor b, bool b_transposed, Tensor c);

// Address of element [row, column] of a row-major matrix.
inline const void* element(const void* data, Index offset, DType dtype) {
  return static_cast<const std::byte*>(data) + offset * size_of(dtype);
}
inline void* element(void* data, Index offset, DType dtype) {
  return static_cast<std::byte*>(data) + offset * size_of(dtype);
}

}  // namespace zaya
