// SPDX-License-Identifier: Apache-2.0
//
// Row bodies around matrix products: conversion, sums, scaling, and products of few rows. bf16
// elements are their bits. Rows are `ld` elements apart.
#pragma once

#include <cstdint>

#include "backend/backend.h"

namespace zaya {

// Where the tile of a symmetric product goes. Both types of y alike; c null: none.
struct SymmetricTile {
  Index rows = 0, columns = 0;
  bool is_diagonal = false;  // only what is on or above the diagonal is used
  void* y = nullptr;
  void* mirror = nullptr;  // of y's element [column, row]
  Index ldy = 0;
  const void* c = nullptr;
  Index ldc = 0;
  float alpha = 1, beta = 0;
};

struct ProductSimd {
  // Rows to and from contiguous f32 rows.
  void (*widen_rows)(const std::uint16_t* from, Index ld, Index rows, Index columns, float* to);
  void (*round_rows)(const float* from, Index rows, Index columns, std::uint16_t* to, Index ld);

  // y[i, o] = sum over k of x[i, k] * w[o, k]; at most 16 rows of x; n rows of w.
  void (*few_rows_f32)(const float* x, Index ldx, Index rows, const float* w, Index ldw, Index n,
                       Index k, float* y, Index ldy);
  void (*few_rows_bf16)(const float* x, Index ldx, Index rows, const std::uint16_t* w, Index ldw,
                        Index n, Index k, float* y, Index ldy);
  // y[i] += row, for contiguous rows of y.
  void (*add_to_rows)(const float* row, Index rows, Index columns, float* y);

  // sums[c] += sum over rows of x[r, c], by groups of 32 rows in order.
  void (*add_column_sums)(const void* x, bool is_bf16, Index ld, Index rows, Index columns,
                          float* sums);
  // sums[c] += a[c].
  void (*add_to)(const float* a, Index count, float* sums);

  // y = alpha * sums + beta * c, sums [rows, columns] contiguous, and the mirror image.
  void (*write_symmetric_f32)(const SymmetricTile& tile, const float* sums);
  void (*write_symmetric_bf16)(const SymmetricTile& tile, const float* sums);

  // to = factor * from; to in f32, or in the type of from.
  void (*scale_to_f32)(const void* from, bool is_bf16, float factor, Index count, float* to);
  void (*scale_row)(const void* from, bool is_bf16, float factor, Index count, void* to);
  // Sum of a * b, both of one type.
  float (*dot)(const void* a, const void* b, bool is_bf16, Index count);
};

const ProductSimd& product_simd(InstructionSet set);

}  // namespace zaya
