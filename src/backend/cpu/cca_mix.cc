// SPDX-License-Identifier: Apache-2.0
//
// The element-wise part of attention's prologue: means, norms and rotation in one trip per token,
// and the delayed half of the values.
#include <algorithm>
#include <cstring>

#include "backend/cpu/cca.h"
#include "backend/cpu/cca_mix_simd.h"
#include "backend/cpu/tiles.h"

namespace zaya {

namespace {

QkMixRows mix_rows(const QkMixArgs& args, DType compute) {
  const Index heads = args.query_heads + args.key_heads;
  ZAYA_CHECK(args.z.dtype() == compute && args.qk0.dtype() == compute);
  return {.query_heads = args.query_heads,
          .key_heads = args.key_heads,
          .channels = args.z.columns() / heads,
          .z = rows_of(args.z),
          .qk0 = rows_of(args.qk0),
          .temp = args.temp.as<float, 1>().data(),
          .positions = args.positions.as<std::int32_t, 1>().data(),
          .rotary = args.rotary.as<float, 3>().data(),
          .half = args.rotary.dim(2),
          .eps = static_cast<float>(epsilon_of(compute))};
}

// Scratch of a worker, in floats.
float* scratch_of(CpuContext& context, int worker, Index count) {
  Workspace& memory = context.worker[worker];
  memory.reset(Workspace::rounded(count * Index{sizeof(float)}));
  return memory.take<float>(count);
}

// A contiguous tensor of the compute type.
const void* data_of(const ConstTensor& x, DType compute) {
  ZAYA_CHECK(x.is_contiguous() && x.dtype() == compute, describe(x));
  return x.data();
}
void* data_of(const Tensor& x, DType compute) {
  ZAYA_CHECK(x.is_contiguous() && x.dtype() == compute, describe(x));
  return x.data();
}

const void* row_at(const ConstTensor& x, Index row, Index column) {
  return element(x.data(), row * x.row_stride() + column, x.dtype());
}
void* row_at(const Tensor& x, Index row, Index column) {
  return element(x.data(), row * x.row_stride() + column, x.dtype());
}

// The segment that holds token t.
const Segment* segment_at(std::span<const Segment> segments, Index t) {
  const auto next = std::upper_bound(segments.begin(), segments.end(), t,
                                     [](Index a, const Segment& s) { return a < s.begin; });
  return &*(next - 1);
}

// The delayed value before a segment.
void write_first(const ConstTensor& bias, const ConstTensor& history, const Segment& segment,
                 Index half, DType dtype, void* to) {
  const std::size_t bytes = static_cast<std::size_t>(half * size_of(dtype));
  if (segment.history >= 0) {
    std::memcpy(to, row_at(history, segment.history, 0), bytes);
  } else if (bias.is_none()) {
    std::memset(to, 0, bytes);
  } else if (dtype == DType::bf16) {
    const auto values = bias.as<float, 1>();
    for (Index c = 0; c < half; ++c) static_cast<bf16*>(to)[c] = bf16(values[c]);
  } else {
    std::memcpy(to, bias.as<float, 1>().data(), bytes);
  }
}

}  // namespace

void CpuCca::mix_forward(const QkMixArgs& args, Tensor q, Tensor k, Tensor norm) noexcept {
  const DType compute = context_->compute();
  const QkMixForward whole = {.in = mix_rows(args, compute),
                              .q = data_of(q, compute),
                              .k = data_of(k, compute),
                              .norm = norm.as<float, 2>().data()};
  ZAYA_CHECK(norm.is_contiguous());
  const CcaMixSimd& simd = cca_mix_simd(context_->set);
  run_blocks(context_->pool, args.z.rows(), kBlockRows, [&](Index begin, Index end, int worker) {
    simd.forward(whole, begin, end, scratch_of(*context_, worker, 2 * whole.in.channels));
  });
}

void CpuCca::mix_backward(const QkMixArgs& args, ConstTensor norm, ConstTensor dq, ConstTensor dk,
                          Tensor dz, Tensor dqk0, Tensor dtemp) noexcept {
  const DType compute = context_->compute();
  const QkMixBackward whole = {.in = mix_rows(args, compute),
                               .norm = norm.as<float, 2>().data(),
                               .dq = data_of(dq, compute),
                               .dk = data_of(dk, compute),
                               .dz = mutable_rows_of(dz),
                               .dqk0 = mutable_rows_of(dqk0)};
  ZAYA_CHECK(norm.is_contiguous() && dz.dtype() == compute && dqk0.dtype() == compute);
  const CcaMixSimd& simd = cca_mix_simd(context_->set);
  const Index key_heads = args.key_heads, blocks = num_blocks(args.z.rows(), kBlockRows);
  context_->shared.reset(Workspace::rounded(blocks * key_heads * Index{sizeof(double)}));
  double* parts = context_->shared.take<double>(blocks * key_heads);
  run_blocks(context_->pool, args.z.rows(), kBlockRows, [&](Index begin, Index end, int worker) {
    simd.backward(whole, begin, end, scratch_of(*context_, worker, 4 * whole.in.channels),
                  parts + begin / kBlockRows * key_heads);
  });
  const auto sums = dtemp.as<float, 1>();
  for (Index g = 0; g < key_heads; ++g) {
    double sum = 0;
    for (Index block = 0; block < blocks; ++block) sum += parts[block * key_heads + g];
    sums[g] = static_cast<float>(static_cast<double>(sums[g]) + sum);
  }
}

void CpuCca::values_forward(ConstTensor vcd, ConstTensor bias_d, ConstTensor history,
                            std::span<const Segment> segments, Tensor v) noexcept {
  const DType dtype = v.dtype();
  ZAYA_CHECK(vcd.dtype() == dtype && dtype == context_->compute());
  const Index half = v.columns() / 2;
  const std::size_t bytes = static_cast<std::size_t>(half * size_of(dtype));
  run_blocks(context_->pool, v.rows(), kBlockRows, [&](Index begin, Index end, int) {
    const Segment* segment = segment_at(segments, begin);
    for (Index t = begin; t < end; ++t) {
      if (t == segment->end) segment = segment_at(segments, t);
      std::memcpy(row_at(v, t, 0), row_at(vcd, t, 0), bytes);
      if (t == segment->begin) {
        write_first(bias_d, history, *segment, half, dtype, row_at(v, t, half));
      } else {
        std::memcpy(row_at(v, t, half), row_at(vcd, t - 1, half), bytes);
      }
    }
  });
}

void CpuCca::values_backward(ConstTensor dv, std::span<const Segment> segments, Tensor dvcd,
                             Tensor dbias_d) noexcept {
  const DType dtype = dvcd.dtype();
  ZAYA_CHECK(dv.dtype() == dtype && dtype == context_->compute());
  const Index half = dvcd.columns() / 2;
  const std::size_t bytes = static_cast<std::size_t>(half * size_of(dtype));
  run_blocks(context_->pool, dvcd.rows(), kBlockRows, [&](Index begin, Index end, int) {
    const Segment* segment = segment_at(segments, begin);
    for (Index t = begin; t < end; ++t) {
      if (t == segment->end) segment = segment_at(segments, t);
      std::memcpy(row_at(dvcd, t, 0), row_at(dv, t, 0), bytes);
      if (t + 1 < segment->end) {
        std::memcpy(row_at(dvcd, t, half), row_at(dv, t + 1, half), bytes);
      } else {
        std::memset(row_at(dvcd, t, half), 0, bytes);
      }
    }
  });
  if (dbias_d.is_none()) return;
  const auto sums = dbias_d.as<float, 1>();
  const auto add_firsts = [&](const auto values) {
    run_blocks(context_->pool, half, kBlockRows, [&](Index begin, Index end, int) {
      for (Index c = begin; c < end; ++c) {
        double sum = 0;
        for (const Segment& segment : segments) {
          if (segment.begin < segment.end)
            sum += static_cast<double>(static_cast<float>(values[segment.begin][half + c]));
        }
        sums[c] = static_cast<float>(static_cast<double>(sums[c]) + sum);
      }
    });
  };
  if (dtype == DType::bf16) {
    add_firsts(dv.as<bf16, 2>());
  } else {
    add_firsts(dv.as<float, 2>());
  }
}

}  // namespace zaya
