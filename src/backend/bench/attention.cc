// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <numeric>

#include "backend/bench/kernels.h"

namespace zaya {

namespace {

constexpr Index kTokens = 4096, kHeads = 8, kKeyHeads = 2, kChannels = 128;
constexpr Index kWidth = (kHeads + kKeyHeads) * kChannels, kTaps = 2;

std::vector<AttentionSpan> spans_of(const std::vector<Index>& lengths) {
  std::vector<AttentionSpan> spans;
  Index begin = 0;
  for (const Index length : lengths) {
    spans.push_back({begin, begin + length, begin, begin + length});
    begin += length;
  }
  return spans;
}

// Multiply-adds of one product over all visible pairs, times two.
double product_flops(const std::vector<AttentionSpan>& spans) {
  double pairs = 0;
  for (const AttentionSpan& span : spans) {
    const double n = static_cast<double>(span.q_end - span.q_begin);
    pairs += n * (n + 1) / 2;
  }
  return 2 * pairs * kHeads * kChannels;
}

struct AttentionLayer {
  AttentionLayer(const Backend& b, BenchMemory& memory)
      : kernels(*b.attention),
        q(memory.values(b.compute(), {kTokens, kHeads, kChannels})),
        k(memory.values(b.compute(), {kTokens, kKeyHeads, kChannels})),
        v(memory.values(b.compute(), {kTokens, kKeyHeads, kChannels})),
        out(memory.zeros(b.compute(), {kTokens, kHeads, kChannels})),
        dout(memory.values(b.compute(), {kTokens, kHeads, kChannels})),
        dq(memory.zeros(b.compute(), {kTokens, kHeads, kChannels})),
        dk(memory.zeros(b.compute(), {kTokens, kKeyHeads, kChannels})),
        dv(memory.zeros(b.compute(), {kTokens, kKeyHeads, kChannels})),
        lse(memory.zeros(b.stream(), {kTokens, kHeads})),
        delta(memory.zeros(b.stream(), {kTokens, kHeads})) {}

  void forward(const std::vector<AttentionSpan>& spans) {
    kernels.forward({q, k, v, spans, 0, ConstTensor{}}, out, lse);
  }
  void both(const std::vector<AttentionSpan>& spans) {
    forward(spans);
    kernels.backward({q, k, v, spans, 0, ConstTensor{}}, out, lse, dout, delta, dq, dk, dv);
  }

  AttentionKernels& kernels;
  Tensor q, k, v, out, dout, dq, dk, dv, lse, delta;
};

// Everything between the projections and attention.
struct Prologue {
  Prologue(const Backend& b, BenchMemory& memory);
  void forward();
  void backward();

  CcaKernels& kernels;
  std::vector<Segment> segments{{0, 1500, -1}, {1500, kTokens, -1}};
  Tensor z, dz, dqk0, q, k, v, vcd, norm, dw0, db0, dw1, db1, dtemp;
  ConvolveArgs convolve;
  QkMixArgs mix;
};

Prologue::Prologue(const Backend& b, BenchMemory& memory) : kernels(*b.cca) {
  const DType type = b.compute(), sums = b.stream();
  for (Tensor* t : {&z, &dz, &dqk0}) *t = memory.values(type, {kTokens, kWidth});
  q = memory.values(type, {kTokens, kHeads, kChannels});
  k = memory.values(type, {kTokens, kKeyHeads, kChannels});
  v = memory.values(type, {kTokens, kKeyHeads * kChannels});
  vcd = memory.values(type, v.shape());
  norm = memory.values(sums, {kTokens, kHeads + kKeyHeads});
  dw0 = memory.zeros(sums, {kWidth, 1, kTaps});
  dw1 = memory.zeros(sums, {kWidth, kChannels, kTaps});
  for (Tensor* t : {&db0, &db1}) *t = memory.zeros(sums, {kWidth});
  dtemp = memory.zeros(sums, {kKeyHeads});
  std::vector<std::int32_t> positions(kTokens);
  std::iota(positions.begin(), positions.end(), 0);
  convolve.heads = kHeads + kKeyHeads;
  convolve.qk0 = memory.values(type, {kTokens, kWidth});
  convolve.w0 = memory.values(sums, {kWidth, 1, kTaps});
  convolve.b0 = convolve.b1 = memory.values(sums, {kWidth});
  convolve.w1 = memory.values(type, {kWidth, kChannels, kTaps}, 0.1);
  convolve.segments = segments;
  mix = {kHeads,
         kKeyHeads,
         z,
         convolve.qk0,
         memory.values(sums, {kKeyHeads}),
         memory.ids(positions),
         memory.values(sums, {kTokens, 2, kChannels / 4})};
}

void Prologue::forward() {
  kernels.convolve_forward(convolve, z);
  kernels.mix_forward(mix, q, k, norm);
  kernels.values_forward(vcd, ConstTensor{}, ConstTensor{}, segments, v);
}

void Prologue::backward() {
  kernels.values_backward(v, segments, vcd, Tensor{});
  kernels.mix_backward(mix, norm, q, k, dz, dqk0, dtemp);
  kernels.convolve_backward(convolve, dz, dqk0, {dw0, db0, dw1, db1});
}

}  // namespace

std::vector<BenchRow> bench_attention(const Backend& backend, double seconds) {
  BenchMemory memory(backend);
  ProductYardstick yardstick(backend);
  AttentionLayer layer(backend, memory);
  const std::vector<AttentionSpan> packed =
      spans_of({1024, 896, 704, 512, 384, 256, 192, 128});  // 8 documents of one row
  const std::vector<AttentionSpan> whole = spans_of({kTokens});
  const double flops = product_flops(packed), whole_flops = product_flops(whole);
  const auto packed_both = [&] { layer.both(packed); };
  const auto packed_forward = [&] { layer.forward(packed); };
  const auto whole_both = [&] { layer.both(whole); };
  const auto product = [&] { yardstick.run(); };
  const FunctionRef<void()> bodies[] = {packed_both, packed_forward, whole_both, product};
  const std::vector<Timing> t = time_alternately(bodies, 3 * seconds);
  const std::string unit = "GFLOP/s", best = "best product";
  const double yard = yardstick.flops();
  std::vector<BenchRow> rows{
      compare(
          {"attention: forward + backward, 8 documents in 4096", unit, best, 6 * flops, yard, 0.5},
          t[0], t[3]),
      compare({"attention: forward, 8 documents in 4096", unit, best, 2 * flops, yard, 0}, t[1],
              t[3]),
      compare({"attention: forward + backward, one document of 4096", unit, best, 6 * whole_flops,
               yard, 0.5},
              t[2], t[3])};
  BenchRow growth;
  growth.name = "attention: time per visible pair, 8 documents over one";
  growth.value = (t[0].median / flops) / (t[2].median / whole_flops);
  growth.unit = "x";
  rows.push_back(growth);
  return rows;
}

std::vector<BenchRow> bench_prologue(const Backend& backend, ThreadPool& pool, double seconds) {
  BenchMemory memory(backend);
  ProductYardstick product(backend);
  CopyYardstick copy(pool);
  Prologue prologue(backend, memory);
  const auto forward = [&] { prologue.forward(); };
  const auto backward = [&] { prologue.backward(); };
  const auto one_product = [&] { product.run(); };
  const auto one_copy = [&] { copy.run(); };
  const FunctionRef<void()> bodies[] = {forward, backward, one_product, one_copy};
  const std::vector<Timing> t = time_alternately(bodies, 3 * seconds);

  // The least time: the grouped convolution at the product's rate, then what must be read and
  // written once (elements of W: qk0, z -> q and k; of values: in, out) at the rate of copying.
  const double conv = 2.0 * kTokens * kWidth * kChannels * kTaps;
  const double element = static_cast<double>(size_of(backend.compute()));
  const double values_bytes = 2.0 * kTokens * kKeyHeads * kChannels * element;
  const double forward_bytes = 3.0 * kTokens * kWidth * element + values_bytes;
  const double backward_bytes = 4.0 * kTokens * kWidth * element + values_bytes;
  const double per_flop = t[2].median / product.flops(), per_byte = t[3].median / copy.bytes();
  const auto row = [&](const char* name, const Timing& timing, double least) {
    BenchRow r{name, timing.median * 1e3, "ms", timing.spread(), least / timing.median, {}, 0.65};
    r.ceiling = fmt::format("least time {:.2f} ms", least * 1e3);
    return r;
  };
  const double least_forward = conv * per_flop + forward_bytes * per_byte;
  const double least_backward = 2 * conv * per_flop + backward_bytes * per_byte;
  Timing both = t[0];
  both.median += t[1].median;
  return {row("CCA prologue: forward", t[0], least_forward),
          row("CCA prologue: backward", t[1], least_backward),
          row("CCA prologue: both", both, least_forward + least_backward)};
}

}  // namespace zaya
