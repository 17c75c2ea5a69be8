// SPDX-License-Identifier: Apache-2.0
//
// Matrix products as tiles of oneDNN calls; products of few rows by own kernels that stream the
// weights.
#include <algorithm>
#include <utility>

#include "backend/cpu/product_simd.h"
#include "backend/cpu/tiles.h"

namespace zaya {

namespace {

// Sides of the tiles of a symmetric product, off and on the diagonal.
constexpr Index kSquare = 256, kDiagonalSquare = 128;
// Columns that one task sums for a bias gradient.
constexpr Index kBiasColumns = 64;

class CpuGemm final : public GemmKernels {
 public:
  explicit CpuGemm(CpuContextPtr context)
      : context_(std::move(context)), simd_(product_simd(context_->set)) {}

  void forward(ConstTensor x, ConstTensor w, ConstTensor bias, Tensor y) noexcept override;
  void backward_input(ConstTensor dy, ConstTensor w, Tensor dx, bool adds) noexcept override;
  void backward_weight(ConstTensor dy, ConstTensor x, Tensor dw, Tensor dbias) noexcept override;
  void symmetric(ConstTensor x, double alpha, ConstTensor c, double beta,
                 Tensor y) noexcept override;
  void multiply_add(ConstTensor p, ConstTensor x, double alpha, Tensor y) noexcept override;

 private:
  void add_column_sums(ConstTensor dy, Tensor dbias);
  void symmetric_tile(const Product& whole, float alpha, ConstTensor c, float beta,
                      const Tile& tile, int worker);

  CpuContextPtr context_;
  const ProductSimd& simd_;
};

void CpuGemm::forward(ConstTensor x, ConstTensor w, ConstTensor bias, Tensor y) noexcept {
  const Product whole = product_of(x, false, w, true, y);
  const float* b = bias.is_none() ? nullptr : bias.as<float, 1>().data();
  if (whole.m <= few_rows_limit(*context_)) {
    const Index width = few_rows_columns(whole);
    context_->pool.run((whole.n + width - 1) / width, [&](Index task, int worker) {
      const Index column = task * width;
      run_few_rows_tile(*context_, whole, column, std::min(width, whole.n - column), b, worker);
    });
    return;
  }
  if (b == nullptr) {
    run_product(*context_, whole, nullptr);
    return;
  }
  const auto start_with_bias = [&](const Tile& tile, float* sums, Index ld) {
    for (Index i = 0; i < tile.rows; ++i) std::copy_n(b + tile.column, tile.columns, sums + i * ld);
  };
  const FillTile fill(start_with_bias);
  run_product(*context_, whole, &fill);
}

void CpuGemm::backward_input(ConstTensor dy, ConstTensor w, Tensor dx, bool adds) noexcept {
  Product whole = product_of(dy, false, w, false, dx);
  if (adds && whole.result == DType::bf16) {
    const auto* values = reinterpret_cast<const std::uint16_t*>(dx.data());
    const auto start_with_values = [&](const Tile& tile, float* sums, Index) {
      simd_.widen_rows(values + tile.row * whole.ldc + tile.column, whole.ldc, tile.rows,
                       tile.columns, sums);
    };
    const FillTile fill(start_with_values);
    run_product(*context_, whole, &fill);
    return;
  }
  whole.adds = adds;
  run_product(*context_, whole, nullptr);
}

void CpuGemm::backward_weight(ConstTensor dy, ConstTensor x, Tensor dw, Tensor dbias) noexcept {
  Product whole = product_of(dy, true, x, false, dw);
  whole.adds = true;
  run_product(*context_, whole, nullptr);
  if (!dbias.is_none()) add_column_sums(dy, dbias);
}

void CpuGemm::add_column_sums(ConstTensor dy, Tensor dbias) {
  const Index width = dy.columns();
  float* sums = dbias.as<float, 1>().data();
  context_->pool.run((width + kBiasColumns - 1) / kBiasColumns, [&](Index task, int) {
    const Index begin = task * kBiasColumns, columns = std::min(kBiasColumns, width - begin);
    simd_.add_column_sums(element(dy.data(), begin, dy.dtype()), dy.dtype() == DType::bf16,
                          dy.row_stride(), dy.rows(), columns, sums + begin);
  });
}

// Writes the part of the tile on and above the diagonal, and its mirror image.
void CpuGemm::symmetric_tile(const Product& whole, float alpha, ConstTensor c, float beta,
                             const Tile& tile, int worker) {
  Workspace& memory = context_->worker[worker];
  memory.reset(Workspace::rounded(tile.rows * tile.columns * Index{sizeof(float)}));
  float* sums = memory.take<float>(tile.rows * tile.columns);
  Product p = product_of_tile(whole, tile);
  p.c = sums;
  p.ldc = tile.columns;
  p.result = DType::f32;
  context_->products.run(p, worker);
  const void* c_tile = nullptr;
  if (!c.is_none()) c_tile = element(c.data(), tile.row * c.row_stride() + tile.column, c.dtype());
  const SymmetricTile result{
      .rows = tile.rows,
      .columns = tile.columns,
      .is_diagonal = tile.row == tile.column,
      .y = element(whole.c, tile.row * whole.ldc + tile.column, whole.result),
      .mirror = element(whole.c, tile.column * whole.ldc + tile.row, whole.result),
      .ldy = whole.ldc,
      .c = c_tile,
      .ldc = c.row_stride(),
      .alpha = alpha,
      .beta = beta};
  if (whole.result == DType::bf16) {
    simd_.write_symmetric_bf16(result, sums);
  } else {
    simd_.write_symmetric_f32(result, sums);
  }
}

void CpuGemm::symmetric(ConstTensor x, double alpha, ConstTensor c, double beta,
                        Tensor y) noexcept {
  const Product whole = product_of(x, false, x, true, y);
  const Cut cut(whole.m, kSquare);
  const float a = static_cast<float>(alpha), b = static_cast<float>(beta);
  // Task t is the t-th pair (i, j >= i) of parts, row by row.
  context_->pool.run(cut.count * (cut.count + 1) / 2, [&](Index task, int worker) {
    Index i = 0, left = task;
    while (left >= cut.count - i) left -= cut.count - i++;
    const Index j = i + left;
    Tile tile{.row = cut.begin(i),
              .column = cut.begin(j),
              .rows = cut.end(i) - cut.begin(i),
              .columns = cut.end(j) - cut.begin(j)};
    if (i != j) {
      symmetric_tile(whole, a, c, b, tile, worker);
      return;
    }
    // On the diagonal smaller squares compute less of what the mirror gives.
    const Index begin = tile.row, end = tile.row + tile.rows;
    for (Index row = begin; row < end; row += kDiagonalSquare) {
      for (Index column = row; column < end; column += kDiagonalSquare) {
        symmetric_tile(whole, a, c, b,
                       {.row = row,
                        .column = column,
                        .rows = std::min(kDiagonalSquare, end - row),
                        .columns = std::min(kDiagonalSquare, end - column)},
                       worker);
      }
    }
  });
}

void CpuGemm::multiply_add(ConstTensor p, ConstTensor x, double alpha, Tensor y) noexcept {
  const Product whole = product_of(p, false, x, false, y);
  const float factor = static_cast<float>(alpha);
  const auto start_with_x = [&](const Tile& tile, float* sums, Index ld) {
    const void* from = element(x.data(), tile.row * x.row_stride() + tile.column, x.dtype());
    for (Index i = 0; i < tile.rows; ++i) {
      simd_.scale_to_f32(element(from, i * x.row_stride(), x.dtype()), x.dtype() == DType::bf16,
                         factor, tile.columns, sums + i * ld);
    }
  };
  const FillTile fill(start_with_x);
  run_product(*context_, whole, &fill);
}

}  // namespace

std::unique_ptr<GemmKernels> make_cpu_gemm(CpuContextPtr context) {
  return std::make_unique<CpuGemm>(std::move(context));
}

}  // namespace zaya
