// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/attention_simd.h"

#include "backend/cpu/simd.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

extern const AttentionSimd kAttentionSimd;

namespace {

constexpr float kInfinity = __builtin_inff();

// Lanes of keys [c, c + 16) that the row sees, all bits set.
ZAYA_INLINE i32x16 seen_lanes(const ScoreTile& tile, Index row, Index c) {
  const i32x16 key = lane_numbers() + broadcast_int(static_cast<std::int32_t>(c));
  const i32x16 seen =
      (key >= broadcast_int(tile.first[row])) & (key < broadcast_int(tile.last[row]));
  if (tile.hidden == nullptr) return seen;
  std::int32_t open[kLanes] = {};
  for (Index i = 0; i < kLanes && c + i < tile.keys; ++i)
    open[i] = tile.hidden[c + i] == 0 ? -1 : 0;
  i32x16 mask;
  __builtin_memcpy(&mask, open, sizeof mask);
  return seen & mask;
}

// Whether all of the keys [c, c + 16) are seen.
ZAYA_INLINE bool sees_all(const ScoreTile& tile, Index row, Index c) {
  return tile.hidden == nullptr && tile.first[row] <= c && c + kLanes <= tile.last[row];
}

ZAYA_INLINE bool sees_any(const ScoreTile& tile, Index row) {
  if (tile.hidden == nullptr) return tile.first[row] < tile.last[row];
  for (Index c = tile.first[row]; c < tile.last[row]; ++c) {
    if (tile.hidden[c] == 0) return true;
  }
  return false;
}

ZAYA_INLINE float row_maximum(const ScoreTile& tile, Index row, const float* scores, float start) {
  f32x16 largest = broadcast(start);
  const Index begin = tile.first[row] / kLanes * kLanes;
  for (Index c = begin; c < tile.last[row]; c += kLanes) {
    const f32x16 s = load_part(scores, c, tile.keys);
    if (sees_all(tile, row, c)) {
      largest = max(largest, s);
    } else {
      largest = max(largest, select(seen_lanes(tile, row, c), s, broadcast(-kInfinity)));
    }
  }
  return max_lanes(largest);
}

// exp(x) of one number, by the vector function.
ZAYA_INLINE float exp_of(float x) { return exp(broadcast(x)).part[0][0]; }

template <class Element>
ZAYA_INLINE void zero_row(Element* p, Index keys) {
  for (Index c = 0; c < keys; c += kLanes) store_part(p, c, keys, zeros());
}

// Probabilities of one row relative to `maximum`, in place; returns their sum.
template <class Element>
ZAYA_INLINE float row_probabilities(const ScoreTile& tile, Index row, const float* scores,
                                    Element* p, float maximum) {
  f32x16 sum = zeros();
  for (Index c = 0; c < tile.keys; c += kLanes) {
    const f32x16 s = load_part(scores, c, tile.keys);
    f32x16 value = zeros();
    if (sees_all(tile, row, c)) {
      value = exp((s - maximum) * tile.scale);
    } else if (c < tile.last[row] && c + kLanes > tile.first[row]) {
      value = select(seen_lanes(tile, row, c), exp((s - maximum) * tile.scale), zeros());
    }
    sum += value;
    store_part(p, c, tile.keys, value);
  }
  return sum_lanes(sum);
}

template <class Element>
ZAYA_INLINE void softmax_rows(const ScoreTile& tile, float* scores, float* maxima, float* sums,
                              float* out, Index channels) {
  for (Index r = 0; r < tile.rows; ++r) {
    float* row = scores + r * tile.ld;
    Element* p = reinterpret_cast<Element*>(row);
    if (!sees_any(tile, r)) {
      zero_row(p, tile.keys);
      continue;
    }
    const float maximum = row_maximum(tile, r, row, maxima[r]);
    if (maximum != maxima[r]) {
      const float shrink =
          maxima[r] == -kInfinity ? 0.0f : exp_of((maxima[r] - maximum) * tile.scale);
      sums[r] *= shrink;
      float* at = out + r * channels;
      for (Index c = 0; c < channels; c += kLanes)
        store_part(at, c, channels, load_part(at, c, channels) * shrink);
      maxima[r] = maximum;
    }
    sums[r] += row_probabilities(tile, r, row, p, maximum);
  }
}

void softmax(const ScoreTile& tile, float* scores, bool to_bf16, float* maxima, float* sums,
             float* out, Index channels) {
  if (to_bf16) {
    softmax_rows<std::uint16_t>(tile, scores, maxima, sums, out, channels);
  } else {
    softmax_rows<float>(tile, scores, maxima, sums, out, channels);
  }
}

template <class Element>
ZAYA_INLINE void softmax_backward_rows(const ScoreTile& tile, float* scores, float* dscores,
                                       const float* lse, const float* delta) {
  for (Index r = 0; r < tile.rows; ++r) {
    const float* s_row = scores + r * tile.ld;
    const float* dp_row = dscores + r * tile.ld;
    Element* p_row = reinterpret_cast<Element*>(scores + r * tile.ld);
    Element* ds_row = reinterpret_cast<Element*>(dscores + r * tile.ld);
    for (Index c = 0; c < tile.keys; c += kLanes) {
      const f32x16 s = load_part(s_row, c, tile.keys), dp = load_part(dp_row, c, tile.keys);
      f32x16 p = zeros(), ds = zeros();
      if (c < tile.last[r] && c + kLanes > tile.first[r]) {
        p = exp(s * tile.scale - lse[r]);
        ds = p * (dp - delta[r]) * tile.scale;
        if (!sees_all(tile, r, c)) {
          const i32x16 seen = seen_lanes(tile, r, c);
          p = select(seen, p, zeros());
          ds = select(seen, ds, zeros());
        }
      }
      store_part(p_row, c, tile.keys, p);
      store_part(ds_row, c, tile.keys, ds);
    }
  }
}

void softmax_backward(const ScoreTile& tile, float* scores, float* dscores, bool to_bf16,
                      const float* lse, const float* delta) {
  if (to_bf16) {
    softmax_backward_rows<std::uint16_t>(tile, scores, dscores, lse, delta);
  } else {
    softmax_backward_rows<float>(tile, scores, dscores, lse, delta);
  }
}

void write_scaled(const float* from, float factor, Index count, bool to_bf16, void* to) {
  for (Index c = 0; c < count; c += kLanes) {
    const f32x16 x = load_part(from, c, count) * factor;
    if (to_bf16) {
      store_part(static_cast<std::uint16_t*>(to), c, count, x);
    } else {
      store_part(static_cast<float*>(to), c, count, x);
    }
  }
}

template <class Element>
ZAYA_INLINE void weigh(const float* p, Index ldp, Index rows, const Element* v, Index ldv,
                       Index keys, Index channels, float* out) {
  constexpr Index kRows = 4;
  for (Index c = 0; c < channels; c += kLanes) {
    for (Index first = 0; first < rows; first += kRows) {
      const Index n = rows - first < kRows ? rows - first : kRows;
      f32x16 sums[kRows];
      for (Index i = 0; i < n; ++i) sums[i] = load_part(out + (first + i) * channels, c, channels);
      for (Index j = 0; j < keys; ++j) {
        const f32x16 value = load_part(v + j * ldv, c, channels);
        for (Index i = 0; i < n; ++i) sums[i] += value * p[(first + i) * ldp + j];
      }
      for (Index i = 0; i < n; ++i) store_part(out + (first + i) * channels, c, channels, sums[i]);
    }
  }
}

void weigh_values(const float* p, Index ldp, Index rows, const void* v, bool is_bf16, Index ldv,
                  Index keys, Index channels, float* out) {
  if (is_bf16) {
    weigh(p, ldp, rows, static_cast<const std::uint16_t*>(v), ldv, keys, channels, out);
  } else {
    weigh(p, ldp, rows, static_cast<const float*>(v), ldv, keys, channels, out);
  }
}

}  // namespace

const AttentionSimd kAttentionSimd = {
    .softmax = softmax,
    .softmax_backward = softmax_backward,
    .write_scaled = write_scaled,
    .weigh_values = weigh_values,
};

}  // namespace zaya::ZAYA_SIMD_NAMESPACE
