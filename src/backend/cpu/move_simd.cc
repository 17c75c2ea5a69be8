// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/move_simd.h"

#include <immintrin.h>

#include "backend/cpu/simd_loops.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

extern const MoveSimd kMoveSimd;

namespace {

constexpr Index kSide = kTransposeSide;
static_assert(kSide == kLanes);

void convert(ConstRows from, Index count, Rows to) {
  with_element(from.is_bf16, [&]<class From>(From*) {
    with_element(to.is_bf16, [&]<class To>(To*) {
      const From* source = static_cast<const From*>(from.data);
      To* target = static_cast<To*>(to.data);
      for_lanes(0, count,
                [&](Index c, auto lanes) { store(target + c, load(source + c, lanes), lanes); });
    });
  });
}

void add(ConstRows from, float factor, Index count, Rows to) {
  with_element(from.is_bf16, [&]<class From>(From*) {
    with_element(to.is_bf16, [&]<class To>(To*) {
      const From* source = static_cast<const From*>(from.data);
      To* target = static_cast<To*>(to.data);
      for_lanes(0, count, [&](Index c, auto lanes) {
        store(target + c, load(target + c, lanes) + load(source + c, lanes) * factor, lanes);
      });
    });
  });
}

void scale(float factor, Index count, Rows x) {
  with_element(x.is_bf16, [&]<class Element>(Element*) {
    Element* row = static_cast<Element*>(x.data);
    for_lanes(0, count,
              [&](Index c, auto lanes) { store(row + c, load(row + c, lanes) * factor, lanes); });
  });
}

// In place of square: its transpose, by squares of 4.
ZAYA_INLINE void transpose_square(const float (&square)[kSide][kSide],
                                  float (&turned)[kSide][kSide]) {
  for (Index i = 0; i < kSide; i += 4) {
    for (Index j = 0; j < kSide; j += 4) {
      __m128 a = _mm_loadu_ps(&square[i][j]), b = _mm_loadu_ps(&square[i + 1][j]);
      __m128 c = _mm_loadu_ps(&square[i + 2][j]), d = _mm_loadu_ps(&square[i + 3][j]);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      _mm_storeu_ps(&turned[j][i], a);
      _mm_storeu_ps(&turned[j + 1][i], b);
      _mm_storeu_ps(&turned[j + 2][i], c);
      _mm_storeu_ps(&turned[j + 3][i], d);
    }
  }
}

template <class From, class To>
ZAYA_INLINE void transpose_part(const From* x, Index x_stride, Index rows, Index columns, To* y,
                                Index y_stride) {
  float square[kSide][kSide] = {}, turned[kSide][kSide];
  for (Index i = 0; i < rows; ++i) store(square[i], load_part(x + i * x_stride, 0, columns));
  transpose_square(square, turned);
  for (Index j = 0; j < columns; ++j) store_part(y + j * y_stride, 0, rows, load(turned[j]));
}

void transpose(ConstRows x, Index rows, Index columns, Rows y) {
  with_element(x.is_bf16, [&]<class From>(From*) {
    with_element(y.is_bf16, [&]<class To>(To*) {
      for (Index j = 0; j < columns; j += kSide) {
        for (Index i = 0; i < rows; i += kSide) {
          transpose_part(static_cast<const From*>(x.data) + i * x.stride + j, x.stride,
                         rows - i < kSide ? rows - i : kSide,
                         columns - j < kSide ? columns - j : kSide,
                         static_cast<To*>(y.data) + j * y.stride + i, y.stride);
        }
      }
    });
  });
}

}  // namespace

const MoveSimd kMoveSimd = {.convert = convert, .add = add, .scale = scale, .transpose = transpose};

}  // namespace zaya::ZAYA_SIMD_NAMESPACE
