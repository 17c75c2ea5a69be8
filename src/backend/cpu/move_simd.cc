// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/move_simd.h"

#include <immintrin.h>

#include "backend/cpu/simd_loops.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

extern const MoveSimd kMoveSimd;

namespace {

constexpr Index kSide = kLanes;
static_assert(kTransposeRows % kSide == 0);

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

// Columns of x that are turned together: a whole cache line of any row. The result is gathered
// here before it goes out, since rows of y a power of two apart would evict each other.
constexpr Index kColumns = 32;
struct Turned {
  float rows[kColumns][kTransposeRows];
};

// to[j][i] = square[i][j], by squares of 4.
ZAYA_INLINE void transpose_square(const float (&square)[kSide][kSide], Turned& to, Index row,
                                  Index column) {
  for (Index i = 0; i < kSide; i += 4) {
    for (Index j = 0; j < kSide; j += 4) {
      __m128 a = _mm_loadu_ps(&square[i][j]), b = _mm_loadu_ps(&square[i + 1][j]);
      __m128 c = _mm_loadu_ps(&square[i + 2][j]), d = _mm_loadu_ps(&square[i + 3][j]);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      _mm_storeu_ps(&to.rows[column + j][row + i], a);
      _mm_storeu_ps(&to.rows[column + j + 1][row + i], b);
      _mm_storeu_ps(&to.rows[column + j + 2][row + i], c);
      _mm_storeu_ps(&to.rows[column + j + 3][row + i], d);
    }
  }
}

// Turns at most kColumns columns of at most kTransposeRows rows.
template <class From, class To>
ZAYA_INLINE void transpose_part(const From* x, Index x_stride, Index rows, Index columns, To* y,
                                Index y_stride) {
  Turned turned;
  for (Index i = 0; i < rows; i += kSide) {
    const Index count = rows - i < kSide ? rows - i : kSide;
    for (Index j = 0; j < columns; j += kSide) {
      float square[kSide][kSide] = {};
      for (Index r = 0; r < count; ++r)
        store(square[r], load_part(x + (i + r) * x_stride, j, columns));
      transpose_square(square, turned, i, j);
    }
  }
  for (Index j = 0; j < columns; ++j) {
    const float* row = turned.rows[j];
    To* to = y + j * y_stride;
    for_lanes(0, rows, [&](Index c, auto lanes) { store(to + c, load(row + c, lanes), lanes); });
  }
}

void transpose(ConstRows x, Index rows, Index columns, Rows y) {
  with_element(x.is_bf16, [&]<class From>(From*) {
    with_element(y.is_bf16, [&]<class To>(To*) {
      for (Index j = 0; j < columns; j += kColumns) {
        transpose_part(static_cast<const From*>(x.data) + j, x.stride, rows,
                       columns - j < kColumns ? columns - j : kColumns,
                       static_cast<To*>(y.data) + j * y.stride, y.stride);
      }
    });
  });
}

}  // namespace

const MoveSimd kMoveSimd = {.convert = convert, .add = add, .scale = scale, .transpose = transpose};

}  // namespace zaya::ZAYA_SIMD_NAMESPACE
