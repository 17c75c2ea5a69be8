// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/convolve_simd.h"

#include "backend/cpu/simd.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

extern const ConvolveSimd kConvolveSimd;

namespace {

template <class Element>
ZAYA_INLINE void depthwise(const void* const* rows, const float* w, const float* bias, Index taps,
                           Index channels, Element* out) {
  for (Index c = 0; c < channels; c += kLanes) {
    f32x16 sum = load_part(bias, c, channels);
    for (Index j = 0; j < taps; ++j) {
      if (rows[j] == nullptr) continue;
      const Element* row = static_cast<const Element*>(rows[j]);
      sum += load_part(w + j * channels, c, channels) * load_part(row, c, channels);
    }
    store_part(out, c, channels, sum);
  }
}

void depthwise_row(const void* const* rows, const float* w, const float* bias, Index taps,
                   Index channels, bool is_bf16, void* out) {
  if (is_bf16) {
    depthwise(rows, w, bias, taps, channels, static_cast<std::uint16_t*>(out));
  } else {
    depthwise(rows, w, bias, taps, channels, static_cast<float*>(out));
  }
}

template <class Element>
ZAYA_INLINE void sum_of_parts(const void* const* parts, Index num_parts, Index channels,
                              float* out) {
  for (Index c = 0; c < channels; c += kLanes) {
    f32x16 sum = zeros();
    for (Index i = 0; i < num_parts; ++i)
      sum += load_part(static_cast<const Element*>(parts[i]), c, channels);
    store_part(out, c, channels, sum);
  }
}

void sum_parts(const void* const* parts, Index num_parts, Index channels, bool is_bf16,
               float* out) {
  if (is_bf16) {
    sum_of_parts<std::uint16_t>(parts, num_parts, channels, out);
  } else {
    sum_of_parts<float>(parts, num_parts, channels, out);
  }
}

template <class Element>
ZAYA_INLINE void add_all_taps(const float* const* rows, const float* w, Index taps, Index channels,
                              Element* out) {
  for (Index c = 0; c < channels; c += kLanes) {
    f32x16 sum = zeros();
    for (Index j = 0; j < taps; ++j) {
      if (rows[j] == nullptr) continue;
      sum += load_part(w + j * channels, c, channels) * load_part(rows[j], c, channels);
    }
    store_part(out, c, channels, load_part(out, c, channels) + sum);
  }
}

void add_taps(const float* const* rows, const float* w, Index taps, Index channels, bool is_bf16,
              void* out) {
  if (is_bf16) {
    add_all_taps(rows, w, taps, channels, static_cast<std::uint16_t*>(out));
  } else {
    add_all_taps(rows, w, taps, channels, static_cast<float*>(out));
  }
}

template <class Element>
ZAYA_INLINE void add_all_products(const float* a, const Element* b, Index channels, float* sums) {
  for (Index c = 0; c < channels; c += kLanes) {
    const f32x16 product = load_part(a, c, channels) * load_part(b, c, channels);
    store_part(sums, c, channels, load_part(sums, c, channels) + product);
  }
}

void add_products(const float* a, const void* b, Index channels, bool is_bf16, float* sums) {
  if (is_bf16) {
    add_all_products(a, static_cast<const std::uint16_t*>(b), channels, sums);
  } else {
    add_all_products(a, static_cast<const float*>(b), channels, sums);
  }
}

}  // namespace

const ConvolveSimd kConvolveSimd = {
    .depthwise_row = depthwise_row,
    .sum_parts = sum_parts,
    .add_taps = add_taps,
    .add_products = add_products,
};

}  // namespace zaya::ZAYA_SIMD_NAMESPACE
