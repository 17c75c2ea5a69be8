// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/product_simd.h"

#include "backend/cpu/simd.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

extern const ProductSimd kProductSimd;

namespace {

constexpr Index kGroupRows = 32;  // rows summed before they join a column sum
constexpr Index kBlock = 16;      // side of a square that is transposed at once

void widen_rows(const std::uint16_t* from, Index ld, Index rows, Index columns, float* to) {
  for (Index i = 0; i < rows; ++i, from += ld, to += columns) {
    Index c = 0;
    for (; c + kLanes <= columns; c += kLanes) store(to + c, load(from + c));
    if (c < columns) store(to + c, load(from + c, columns - c), columns - c);
  }
}

void round_rows(const float* from, Index rows, Index columns, std::uint16_t* to, Index ld) {
  for (Index i = 0; i < rows; ++i, from += columns, to += ld) {
    Index c = 0;
    for (; c + kLanes <= columns; c += kLanes) store(to + c, load(from + c));
    if (c < columns) store(to + c, load(from + c, columns - c), columns - c);
  }
}

// Sums of `Rows` rows of x with `Columns` rows of w.
template <int Rows, int Columns, class Element>
ZAYA_INLINE void few_rows_block(const float* x, Index ldx, const Element* w, Index ldw, Index k,
                                float* y, Index ldy) {
  f32x16 sums[Rows][Columns];
  for (int i = 0; i < Rows; ++i) {
    for (int o = 0; o < Columns; ++o) sums[i][o] = zeros();
  }
  Index c = 0;
  for (; c + kLanes <= k; c += kLanes) {
    f32x16 columns[Columns];
    for (int o = 0; o < Columns; ++o) {
      columns[o] = load(w + o * ldw + c);
      // Rows are too short for the processor to see the next ones coming.
      if (Rows == 1) __builtin_prefetch(w + (o + Columns) * ldw + c);
    }
    for (int i = 0; i < Rows; ++i) {
      const f32x16 row = load(x + i * ldx + c);
      for (int o = 0; o < Columns; ++o) sums[i][o] += row * columns[o];
    }
  }
  if (c < k) {
    for (int i = 0; i < Rows; ++i) {
      const f32x16 row = load(x + i * ldx + c, k - c);
      for (int o = 0; o < Columns; ++o) sums[i][o] += row * load(w + o * ldw + c, k - c);
    }
  }
  for (int i = 0; i < Rows; ++i) {
    for (int o = 0; o < Columns; ++o) y[i * ldy + o] = sum_lanes(sums[i][o]);
  }
}

// All rows of x with `Columns` rows of w.
template <int Columns, class Element>
ZAYA_INLINE void few_rows_columns(const float* x, Index ldx, Index rows, const Element* w,
                                  Index ldw, Index k, float* y, Index ldy) {
  Index i = 0;
  for (; i + 4 <= rows; i += 4)
    few_rows_block<4, Columns>(x + i * ldx, ldx, w, ldw, k, y + i * ldy, ldy);
  switch (rows - i) {
    case 3: few_rows_block<3, Columns>(x + i * ldx, ldx, w, ldw, k, y + i * ldy, ldy); break;
    case 2: few_rows_block<2, Columns>(x + i * ldx, ldx, w, ldw, k, y + i * ldy, ldy); break;
    case 1: few_rows_block<1, Columns>(x + i * ldx, ldx, w, ldw, k, y + i * ldy, ldy); break;
    default: break;
  }
}

template <class Element>
ZAYA_INLINE void few_rows(const float* x, Index ldx, Index rows, const Element* w, Index ldw,
                          Index n, Index k, float* y, Index ldy) {
  Index o = 0;
  for (; o + 4 <= n; o += 4) few_rows_columns<4>(x, ldx, rows, w + o * ldw, ldw, k, y + o, ldy);
  for (; o < n; ++o) few_rows_columns<1>(x, ldx, rows, w + o * ldw, ldw, k, y + o, ldy);
}

void few_rows_f32(const float* x, Index ldx, Index rows, const float* w, Index ldw, Index n,
                  Index k, float* y, Index ldy) {
  few_rows(x, ldx, rows, w, ldw, n, k, y, ldy);
}

void few_rows_bf16(const float* x, Index ldx, Index rows, const std::uint16_t* w, Index ldw,
                   Index n, Index k, float* y, Index ldy) {
  few_rows(x, ldx, rows, w, ldw, n, k, y, ldy);
}

void add_to(const float* a, Index count, float* sums) {
  Index c = 0;
  for (; c + kLanes <= count; c += kLanes) store(sums + c, load(sums + c) + load(a + c));
  for (; c < count; ++c) sums[c] += a[c];
}

void add_to_rows(const float* row, Index rows, Index columns, float* y) {
  for (Index i = 0; i < rows; ++i) add_to(row, columns, y + i * columns);
}

template <class Element>
ZAYA_INLINE void column_sums(const Element* x, Index ld, Index rows, Index columns, float* sums) {
  for (Index c = 0; c < columns; c += kLanes) {
    const Index count = columns - c;
    const bool is_whole = count >= kLanes;
    f32x16 total = is_whole ? load(sums + c) : load(sums + c, count);
    for (Index begin = 0; begin < rows; begin += kGroupRows) {
      const Index end = begin + kGroupRows < rows ? begin + kGroupRows : rows;
      f32x16 group = zeros();
      for (Index r = begin; r < end; ++r) {
        const Element* at = x + r * ld + c;
        group += is_whole ? load(at) : load(at, count);
      }
      total += group;
    }
    if (is_whole) {
      store(sums + c, total);
    } else {
      store(sums + c, total, count);
    }
  }
}

void add_column_sums(const void* x, bool is_bf16, Index ld, Index rows, Index columns,
                     float* sums) {
  if (is_bf16) {
    column_sums(static_cast<const std::uint16_t*>(x), ld, rows, columns, sums);
  } else {
    column_sums(static_cast<const float*>(x), ld, rows, columns, sums);
  }
}

// One square of a symmetric tile: rows [r, r + rows) and columns [c, c + columns) of it.
template <class Element>
ZAYA_INLINE void write_square(const SymmetricTile& t, const float* sums, Index r, Index c) {
  const Index rows = t.rows - r < kBlock ? t.rows - r : kBlock;
  const Index columns = t.columns - c < kBlock ? t.columns - c : kBlock;
  Element* y = static_cast<Element*>(t.y);
  Element* mirror = static_cast<Element*>(t.mirror);
  const Element* addend = static_cast<const Element*>(t.c);
  Element square[kBlock][kBlock];
  for (Index i = 0; i < rows; ++i) {
    f32x16 value = load_part(sums + (r + i) * t.columns, c, t.columns) * t.alpha;
    if (addend != nullptr) value += load_part(addend + (r + i) * t.ldc, c, t.columns) * t.beta;
    store(square[i], value);
  }
  const bool crosses = t.is_diagonal && r == c;
  if (!crosses && rows == kBlock && columns == kBlock) {
    Element turned[kBlock][kBlock];
    for (Index i = 0; i < kBlock; ++i) {
      for (Index j = 0; j < kBlock; ++j) turned[j][i] = square[i][j];
    }
    for (Index i = 0; i < kBlock; ++i) {
      __builtin_memcpy(y + (r + i) * t.ldy + c, square[i], sizeof square[i]);
      __builtin_memcpy(mirror + (c + i) * t.ldy + r, turned[i], sizeof turned[i]);
    }
    return;
  }
  for (Index i = 0; i < rows; ++i) {
    for (Index j = crosses ? i : 0; j < columns; ++j) {
      y[(r + i) * t.ldy + c + j] = square[i][j];
      mirror[(c + j) * t.ldy + r + i] = square[i][j];
    }
  }
}

template <class Element>
ZAYA_INLINE void write_symmetric(const SymmetricTile& t, const float* sums) {
  for (Index r = 0; r < t.rows; r += kBlock) {
    for (Index c = t.is_diagonal ? r : 0; c < t.columns; c += kBlock)
      write_square<Element>(t, sums, r, c);
  }
}

void write_symmetric_f32(const SymmetricTile& tile, const float* sums) {
  write_symmetric<float>(tile, sums);
}

void write_symmetric_bf16(const SymmetricTile& tile, const float* sums) {
  write_symmetric<std::uint16_t>(tile, sums);
}

template <class From, class To>
ZAYA_INLINE void scale(const From* from, float factor, Index count, To* to) {
  Index c = 0;
  for (; c + kLanes <= count; c += kLanes) store(to + c, load(from + c) * factor);
  if (c < count) store(to + c, load(from + c, count - c) * factor, count - c);
}

void scale_to_f32(const void* from, bool is_bf16, float factor, Index count, float* to) {
  if (is_bf16) {
    scale(static_cast<const std::uint16_t*>(from), factor, count, to);
  } else {
    scale(static_cast<const float*>(from), factor, count, to);
  }
}

void scale_row(const void* from, bool is_bf16, float factor, Index count, void* to) {
  if (is_bf16) {
    scale(static_cast<const std::uint16_t*>(from), factor, count, static_cast<std::uint16_t*>(to));
  } else {
    scale(static_cast<const float*>(from), factor, count, static_cast<float*>(to));
  }
}

template <class Element>
ZAYA_INLINE float dot_of(const Element* a, const Element* b, Index count) {
  f32x16 sum = zeros();
  Index c = 0;
  for (; c + kLanes <= count; c += kLanes) sum += load(a + c) * load(b + c);
  if (c < count) sum += load(a + c, count - c) * load(b + c, count - c);
  return sum_lanes(sum);
}

float dot(const void* a, const void* b, bool is_bf16, Index count) {
  if (is_bf16)
    return dot_of(static_cast<const std::uint16_t*>(a), static_cast<const std::uint16_t*>(b),
                  count);
  return dot_of(static_cast<const float*>(a), static_cast<const float*>(b), count);
}

}  // namespace

const ProductSimd kProductSimd = {
    .widen_rows = widen_rows,
    .round_rows = round_rows,
    .few_rows_f32 = few_rows_f32,
    .few_rows_bf16 = few_rows_bf16,
    .add_to_rows = add_to_rows,
    .add_column_sums = add_column_sums,
    .add_to = add_to,
    .write_symmetric_f32 = write_symmetric_f32,
    .write_symmetric_bf16 = write_symmetric_bf16,
    .scale_to_f32 = scale_to_f32,
    .scale_row = scale_row,
    .dot = dot,
};

}  // namespace zaya::ZAYA_SIMD_NAMESPACE
