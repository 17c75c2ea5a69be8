// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/convolve_simd.h"

#include "backend/cpu/simd.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

extern const ConvolveSimd kConvolveSimd;

namespace {

template <class Element>
ZAYA_INLINE void depthwise(const void* const* rows, const float* w, const float* bias, Index taps,
                           Index heads, Index channels, Element* out, Index head_stride) {
  const Index width = heads * channels;
  for (Index n = 0; n < heads; ++n) {
    const Index head = n * channels;
    for (Index c = 0; c < channels; c += kLanes) {
      f32x16 sum = load_part(bias + head, c, channels);
      for (Index j = 0; j < taps; ++j) {
        if (rows[j] == nullptr) continue;
        const Element* row = static_cast<const Element*>(rows[j]) + head;
        sum += load_part(w + j * width + head, c, channels) * load_part(row, c, channels);
      }
      store_part(out + n * head_stride, c, channels, sum);
    }
  }
}

void depthwise_row(const void* const* rows, const float* w, const float* bias, Index taps,
                   Index heads, Index channels, bool is_bf16, void* out, Index head_stride) {
  if (is_bf16) {
    depthwise(rows, w, bias, taps, heads, channels, static_cast<std::uint16_t*>(out), head_stride);
  } else {
    depthwise(rows, w, bias, taps, heads, channels, static_cast<float*>(out), head_stride);
  }
}

template <class Element>
ZAYA_INLINE void sum_of_parts(const void* const* parts, Index num_parts, Index heads,
                              Index channels, Index head_stride, float* out) {
  for (Index n = 0; n < heads; ++n) {
    for (Index c = 0; c < channels; c += kLanes) {
      f32x16 sum = zeros();
      for (Index i = 0; i < num_parts; ++i)
        sum += load_part(static_cast<const Element*>(parts[i]) + n * head_stride, c, channels);
      store_part(out + n * channels, c, channels, sum);
    }
  }
}

void sum_parts(const void* const* parts, Index num_parts, Index heads, Index channels,
               Index head_stride, bool is_bf16, float* out) {
  if (is_bf16) {
    sum_of_parts<std::uint16_t>(parts, num_parts, heads, channels, head_stride, out);
  } else {
    sum_of_parts<float>(parts, num_parts, heads, channels, head_stride, out);
  }
}

template <class Element>
ZAYA_INLINE void add_all_taps(const float* const* rows, const float* w, Index taps, Index width,
                              Element* out) {
  for (Index c = 0; c < width; c += kLanes) {
    f32x16 sum = zeros();
    for (Index j = 0; j < taps; ++j) {
      if (rows[j] == nullptr) continue;
      sum += load_part(w + j * width, c, width) * load_part(rows[j], c, width);
    }
    store_part(out, c, width, load_part(out, c, width) + sum);
  }
}

void add_taps(const float* const* rows, const float* w, Index taps, Index width, bool is_bf16,
              void* out) {
  if (is_bf16) {
    add_all_taps(rows, w, taps, width, static_cast<std::uint16_t*>(out));
  } else {
    add_all_taps(rows, w, taps, width, static_cast<float*>(out));
  }
}

template <class Element>
ZAYA_INLINE void add_all_products(const float* a, const Element* b, Index width, float* sums) {
  for (Index c = 0; c < width; c += kLanes) {
    const f32x16 product = load_part(a, c, width) * load_part(b, c, width);
    store_part(sums, c, width, load_part(sums, c, width) + product);
  }
}

void add_products(const float* a, const void* b, Index width, bool is_bf16, float* sums) {
  if (is_bf16) {
    add_all_products(a, static_cast<const std::uint16_t*>(b), width, sums);
  } else {
    add_all_products(a, static_cast<const float*>(b), width, sums);
  }
}

void add_to(const float* a, Index width, float* sums) {
  for (Index c = 0; c < width; c += kLanes)
    store_part(sums, c, width, load_part(sums, c, width) + load_part(a, c, width));
}

}  // namespace

const ConvolveSimd kConvolveSimd = {
    .depthwise_row = depthwise_row,
    .sum_parts = sum_parts,
    .add_taps = add_taps,
    .add_products = add_products,
    .add_to = add_to,
};

}  // namespace zaya::ZAYA_SIMD_NAMESPACE
