// SPDX-License-Identifier: Apache-2.0
//
// Loops over rows by 16 lanes. For *_simd.cc files only.
#pragma once

#include "backend/cpu/simd.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

// The number of lanes in use, where all are.
struct AllLanes {};
template <class Element>
ZAYA_INLINE f32x16 load(const Element* from, AllLanes) {
  return load(from);
}
template <class Element>
ZAYA_INLINE void store(Element* to, f32x16 x, AllLanes) {
  store(to, x);
}

// Calls body(c, lanes) for the columns c = begin, begin + 16, ... of a row that ends at `end`;
// lanes is AllLanes or, for the last columns, their number.
template <class Body>
ZAYA_INLINE void for_lanes(Index begin, Index end, Body body) {
  Index c = begin;
  for (; c + kLanes <= end; c += kLanes) body(c, AllLanes{});
  if (c < end) body(c, end - c);
}

// Sum of term(c, lanes) over the columns of a row and over lanes; unused lanes must be zero. Four
// running sums hide the latency of additions.
template <class Term>
ZAYA_INLINE float sum_over(Index width, Term term) {
  f32x16 s0 = zeros(), s1 = zeros(), s2 = zeros(), s3 = zeros();
  Index c = 0;
  for (; c + 4 * kLanes <= width; c += 4 * kLanes) {
    s0 += term(c, AllLanes{});
    s1 += term(c + kLanes, AllLanes{});
    s2 += term(c + 2 * kLanes, AllLanes{});
    s3 += term(c + 3 * kLanes, AllLanes{});
  }
  for (; c + kLanes <= width; c += kLanes) s0 += term(c, AllLanes{});
  if (c < width) s1 += term(c, width - c);
  return sum_lanes((s0 + s1) + (s2 + s3));
}

// Calls body with a null pointer of the element type: float*, or std::uint16_t* for bf16.
template <class Body>
ZAYA_INLINE void with_element(bool is_bf16, Body body) {
  if (is_bf16) {
    body(static_cast<std::uint16_t*>(nullptr));
  } else {
    body(static_cast<float*>(nullptr));
  }
}

}  // namespace zaya::ZAYA_SIMD_NAMESPACE
