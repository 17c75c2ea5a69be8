// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/residual_simd.h"

#include "backend/cpu/simd_loops.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

extern const ResidualSimd kResidualSimd;

namespace {

constexpr Index kAhead = 6;  // tokens between the request of a scattered row and its use

// Asks for the cache lines of a part of a row.
template <class Element>
ZAYA_INLINE void prefetch(const Element* row, Index width) {
  constexpr Index kLine = 64 / static_cast<Index>(sizeof(Element));
  for (Index c = 0; c < width; c += kLine) __builtin_prefetch(row + c);
}

void entry_forward(const EntryRows& a, Index begin, Index end, Rows x) {
  with_element(a.table.is_bf16, [&]<class Element>(Element*) {
    const Element* table = static_cast<const Element*>(a.table.data);
    for (Index t = begin; t < end; ++t) {
      const Element* row = table + a.ids[t] * a.table.stride;
      float* to = static_cast<float*>(x.data) + t * x.stride;
      for_lanes(0, a.width, [&](Index c, auto lanes) {
        store(to + c, (load(row + c, lanes) + load(a.b + c, lanes)) * load(a.s + c, lanes), lanes);
      });
    }
  });
}

// Sums over a block of tokens: of dx, and of dx times the token's row.
struct EntrySums {
  float dx[kEntryColumns];
  float product[kEntryColumns];
};

template <class Element>
ZAYA_INLINE void entry_backward_block(const EntryBackward& a, Index begin, Index end,
                                      EntrySums& sums) {
  const EntryRows& e = a.entry;
  const Element* table = static_cast<const Element*>(e.table.data);
  for (Index t = begin; t < end; ++t) {
    if (t + kAhead < a.num_tokens) {
      const Index next = e.ids[t + kAhead];
      prefetch(a.dtable + next * a.dtable_stride, e.width);
      prefetch(table + next * e.table.stride, e.width);
      prefetch(a.dx + (t + kAhead) * a.dx_stride, e.width);
    }
    const Element* row = table + e.ids[t] * e.table.stride;
    const float* dx = a.dx + t * a.dx_stride;
    float* drow = a.dtable + e.ids[t] * a.dtable_stride;
    const bool is_looked_up = e.ids[t] != a.pad_id;
    for_lanes(0, e.width, [&](Index c, auto lanes) {
      const f32x16 g = load(dx + c, lanes);
      if (is_looked_up) {
        store(drow + c, load(drow + c, lanes) + g * load(e.s + c, lanes), lanes);
      }
      store(sums.dx + c, load(sums.dx + c, lanes) + g, lanes);
      store(sums.product + c, load(sums.product + c, lanes) + g * load(row + c, lanes), lanes);
    });
  }
}

void entry_backward(const EntryBackward& a) {
  const Index width = a.entry.width;
  EntrySums total{};
  for (Index begin = 0; begin < a.num_tokens; begin += kBlockRows) {
    const Index end = begin + kBlockRows < a.num_tokens ? begin + kBlockRows : a.num_tokens;
    EntrySums block{};
    with_element(a.entry.table.is_bf16, [&]<class Element>(Element*) {
      entry_backward_block<Element>(a, begin, end, block);
    });
    for_lanes(0, width, [&](Index c, auto lanes) {
      store(total.dx + c, load(total.dx + c, lanes) + load(block.dx + c, lanes), lanes);
      store(total.product + c, load(total.product + c, lanes) + load(block.product + c, lanes),
            lanes);
    });
  }
  for_lanes(0, width, [&](Index c, auto lanes) {
    const f32x16 sum = load(total.dx + c, lanes);
    const f32x16 ds = load(total.product + c, lanes) + load(a.entry.b + c, lanes) * sum;
    store(a.db + c, load(a.db + c, lanes) + load(a.entry.s + c, lanes) * sum, lanes);
    store(a.ds + c, load(a.ds + c, lanes) + ds, lanes);
  });
}

void mix_forward(const MixRows& p, Index begin, Index end, Rows y) {
  with_element(p.a.is_bf16, [&]<class Element>(Element*) {
    for (Index t = begin; t < end; ++t) {
      const float* r = static_cast<const float*>(p.r.data) + t * p.r.stride;
      const Element* a = static_cast<const Element*>(p.a.data) + t * p.a.stride;
      float* to = static_cast<float*>(y.data) + t * y.stride;
      for_lanes(0, p.width, [&](Index c, auto lanes) {
        const f32x16 stream =
            (load(r + c, lanes) + load(p.b_r + c, lanes)) * load(p.s_r + c, lanes);
        const f32x16 branch =
            (load(a + c, lanes) + load(p.b_a + c, lanes)) * load(p.s_a + c, lanes);
        store(to + c, stream + branch, lanes);
      });
    }
  });
}

void mix_backward(const MixRows& p, Index begin, Index end, Rows dr, Rows da, float* sums) {
  float* sum_g = sums;
  float* sum_gr = sums + p.width;
  float* sum_ga = sums + 2 * p.width;
  for_lanes(0, 3 * p.width, [&](Index c, auto lanes) { store(sums + c, zeros(), lanes); });
  with_element(p.a.is_bf16, [&]<class Element>(Element*) {
    for (Index t = begin; t < end; ++t) {
      const float* r = static_cast<const float*>(p.r.data) + t * p.r.stride;
      const Element* a = static_cast<const Element*>(p.a.data) + t * p.a.stride;
      float* g_row = static_cast<float*>(dr.data) + t * dr.stride;
      Element* da_row = static_cast<Element*>(da.data) + t * da.stride;
      for_lanes(0, p.width, [&](Index c, auto lanes) {
        const f32x16 g = load(g_row + c, lanes);
        store(sum_g + c, load(sum_g + c, lanes) + g, lanes);
        store(sum_gr + c, load(sum_gr + c, lanes) + g * load(r + c, lanes), lanes);
        store(sum_ga + c, load(sum_ga + c, lanes) + g * load(a + c, lanes), lanes);
        store(g_row + c, g * load(p.s_r + c, lanes), lanes);
        store(da_row + c, g * load(p.s_a + c, lanes), lanes);
      });
    }
  });
}

void mix_gradients(const MixRows& p, const float* sums, const MixSums& d) {
  const float* sum_g = sums;
  const float* sum_gr = sums + p.width;
  const float* sum_ga = sums + 2 * p.width;
  for_lanes(0, p.width, [&](Index c, auto lanes) {
    const f32x16 g = load(sum_g + c, lanes);
    const f32x16 s_r = load(sum_gr + c, lanes) + load(p.b_r + c, lanes) * g;
    const f32x16 s_a = load(sum_ga + c, lanes) + load(p.b_a + c, lanes) * g;
    store(d.s_r + c, load(d.s_r + c, lanes) + s_r, lanes);
    store(d.b_r + c, load(d.b_r + c, lanes) + load(p.s_r + c, lanes) * g, lanes);
    store(d.s_a + c, load(d.s_a + c, lanes) + s_a, lanes);
    store(d.b_a + c, load(d.b_a + c, lanes) + load(p.s_a + c, lanes) * g, lanes);
  });
}

}  // namespace

const ResidualSimd kResidualSimd = {
    .entry_forward = entry_forward,
    .entry_backward = entry_backward,
    .mix_forward = mix_forward,
    .mix_backward = mix_backward,
    .mix_gradients = mix_gradients,
};

}  // namespace zaya::ZAYA_SIMD_NAMESPACE
