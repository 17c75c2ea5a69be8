// SPDX-License-Identifier: Apache-2.0
//
// The two convolutions of attention's prologue, one head and one block of tokens at a time, so that
// all of it stays in the cache. The first convolution is depthwise and cheap; its outputs are laid
// out tap by tap, u[t] = [k1, C], so that the second is one product: z = u w1[n]^T with w1[n]
// packed as [C, k1, C]. Backward makes u again.
#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/cca.h"
#include "backend/cpu/convolve_simd.h"
#include "backend/cpu/product_simd.h"
#include "backend/cpu/tiles.h"

namespace zaya {

namespace {

constexpr Index kBlock = 256;  // tokens of one product
constexpr Index kPart = 1024;  // tokens whose parameter gradients are summed by one task
constexpr Index kMaxTaps = 64;

// One call's sizes and operands.
class Convolution {
 public:
  Convolution(CpuContext& context, const ConvolveArgs& args)
      : context_(context),
        simd_(convolve_simd(context.set)),
        products_(product_simd(context.set)),
        args_(args),
        tokens_(args.qk0.rows()),
        width_(args.qk0.columns()),
        heads_(args.heads),
        channels_(width_ / heads_),
        k0_(args.w0.dim(2)),
        k1_(args.w1.dim(2)),
        dtype_(args.qk0.dtype()) {
    ZAYA_CHECK(k0_ <= kMaxTaps && k1_ <= kMaxTaps, "convolution kernel too long");
  }

  void forward(Tensor z);
  void backward(ConstTensor dz, Tensor dqk0, const ConvolveGradients& d);

 private:
  // Memory of one worker for one block of a head, in elements of the compute type or f32.
  struct Block {
    void* u = nullptr;         // [rows, k1, C], then its gradient
    float* du = nullptr;       // [rows, C] gradient of the first convolution's output
    float* row_sum = nullptr;  // [C]
  };
  // Gradients of one head from one part of the tokens.
  struct Part {
    float* w1 = nullptr;  // [C, k1, C]
    float* w0 = nullptr;  // [k0, C]
    float* b0 = nullptr;  // [C]
    float* b1 = nullptr;  // [C]
  };

  bool is_bf16() const { return dtype_ == DType::bf16; }
  Index num_blocks(Index length) const { return (tokens_ + length - 1) / length; }
  // Elements of u per token and head.
  Index depth() const { return k1_ * channels_; }
  Index part_floats() const { return channels_ * (depth() + k0_ + 2); }
  Part part_of(Index task) const;
  // The segment that holds token t.
  const Segment& segment_of(Index t) const;
  const void* source_row(Index t, const Segment& segment, Index head) const;
  void take_shared(bool is_backward);
  void pack_taps();
  void pack_weights();
  void depthwise(Index t, Index tap, const Segment& segment, Index head, void* out) const;
  void fill_u(Index begin, Index end, Index head, void* u) const;
  void forward_block(Index begin, Index end, Index head, Tensor z, int worker);
  void forward_few_rows(Tensor z);
  Block take_block(int worker) const;
  void backward_part(Index task, ConstTensor dz, Tensor dqk0, int worker);
  void backward_block(Index begin, Index end, Index head, ConstTensor dz, Tensor dqk0,
                      const Block& block, const Part& part, int worker);
  void add_weight_gradient(Index begin, Index end, Index head, ConstTensor dz, const Block& block,
                           const Part& part, int worker);
  void gradient_of_inputs(Index begin, Index end, Index head, Tensor dqk0, const Block& block,
                          const Part& part) const;
  void add_parts(const ConvolveGradients& d);

  CpuContext& context_;
  const ConvolveSimd& simd_;
  const ProductSimd& products_;
  const ConvolveArgs& args_;
  Index tokens_, width_, heads_, channels_, k0_, k1_;
  DType dtype_;
  float* w0_taps_ = nullptr;   // [N, k0, C]
  void* w1_packed_ = nullptr;  // [N, C, k1, C]
  float* parts_ = nullptr;     // [N, parts, part_floats()]
};

const Segment& Convolution::segment_of(Index t) const {
  const auto next = std::upper_bound(args_.segments.begin(), args_.segments.end(), t,
                                     [](Index a, const Segment& s) { return a < s.begin; });
  return *(next - 1);
}

// The head's columns of row t of qk0 as this segment sees it; null: zeros.
const void* Convolution::source_row(Index t, const Segment& segment, Index head) const {
  const Index column = head * channels_;
  if (t >= segment.begin) {
    return element(args_.qk0.data(), t * args_.qk0.row_stride() + column, dtype_);
  }
  const Index kept = k0_ + k1_ - 2, back = segment.begin - t;
  if (segment.history < 0 || args_.history.is_none() || back > kept) return nullptr;
  return element(args_.history.data(), (segment.history * kept + kept - back) * width_ + column,
                 dtype_);
}

// Shared memory of the call: w0 by head and tap, w1 packed, gradients by part.
void Convolution::take_shared(bool is_backward) {
  const Index w0_bytes = k0_ * width_ * Index{sizeof(float)};
  const Index w1_bytes = width_ * depth() * size_of(dtype_);
  const Index part_bytes =
      is_backward ? heads_ * num_blocks(kPart) * part_floats() * Index{sizeof(float)} : 0;
  context_.shared.reset(Workspace::rounded(w0_bytes) + Workspace::rounded(w1_bytes) +
                        Workspace::rounded(part_bytes));
  w0_taps_ = static_cast<float*>(context_.shared.take_bytes(w0_bytes));
  w1_packed_ = context_.shared.take_bytes(w1_bytes);
  parts_ = static_cast<float*>(context_.shared.take_bytes(part_bytes));
  pack_taps();
}

void Convolution::pack_taps() {
  const float* w0 = args_.w0.as<float, 3>().data();
  for (Index n = 0; n < heads_; ++n) {
    for (Index j = 0; j < k0_; ++j) {
      for (Index c = 0; c < channels_; ++c)
        w0_taps_[(n * k0_ + j) * channels_ + c] = w0[(n * channels_ + c) * k0_ + j];
    }
  }
}

void Convolution::pack_weights() {
  const auto pack = [&]<class Element>(const Element* from, Element* to) {
    context_.pool.run(heads_, [&](Index n, int) {
      for (Index o = n * channels_; o < (n + 1) * channels_; ++o) {
        for (Index j = 0; j < k1_; ++j) {
          for (Index i = 0; i < channels_; ++i)
            to[(o * k1_ + j) * channels_ + i] = from[(o * channels_ + i) * k1_ + j];
        }
      }
    });
  };
  if (is_bf16()) {
    pack(args_.w1.as<bf16, 3>().data(), static_cast<bf16*>(w1_packed_));
  } else {
    pack(args_.w1.as<float, 3>().data(), static_cast<float*>(w1_packed_));
  }
}

// What tap `tap` of token t reads: the first convolution's output k1 - 1 - tap tokens before t.
void Convolution::depthwise(Index t, Index tap, const Segment& segment, Index head,
                            void* out) const {
  std::array<const void*, kMaxTaps> rows;
  const Index at = t - (k1_ - 1) + tap;
  for (Index j = 0; j < k0_; ++j) rows[j] = source_row(at - (k0_ - 1) + j, segment, head);
  const float* bias = args_.b0.as<float, 1>().data() + head * channels_;
  simd_.depthwise_row(rows.data(), w0_taps_ + head * k0_ * channels_, bias, k0_, channels_,
                      is_bf16(), out);
}

void Convolution::fill_u(Index begin, Index end, Index head, void* u) const {
  const std::size_t tap_bytes = static_cast<std::size_t>(channels_ * size_of(dtype_));
  const Segment* segment = &segment_of(begin);
  for (Index t = begin; t < end; ++t) {
    if (t >= segment->end) segment = &segment_of(t);
    void* row = element(u, (t - begin) * depth(), dtype_);
    // Earlier taps are the later taps of the token before.
    const bool has_previous = t > begin && t > segment->begin;
    if (has_previous && k1_ > 1) {
      std::memcpy(row, element(row, channels_ - depth(), dtype_), tap_bytes * (k1_ - 1));
    }
    for (Index tap = has_previous ? k1_ - 1 : 0; tap < k1_; ++tap) {
      depthwise(t, tap, *segment, head, element(row, tap * channels_, dtype_));
    }
  }
}

void Convolution::forward_block(Index begin, Index end, Index head, Tensor z, int worker) {
  const Index rows = end - begin, column = head * channels_;
  Workspace& memory = context_.worker[worker];
  const Index u_bytes = rows * depth() * size_of(dtype_);
  memory.reset(Workspace::rounded(u_bytes) +
               Workspace::rounded(rows * channels_ * Index{sizeof(float)}));
  void* u = memory.take_bytes(u_bytes);
  float* sums = memory.take<float>(rows * channels_);
  fill_u(begin, end, head, u);
  const float* b1 = args_.b1.as<float, 1>().data() + column;
  const bool is_direct = z.dtype() == DType::f32;
  float* out = is_direct ? z.as<float, 2>()[begin].data() + column : sums;
  const Index ld = is_direct ? z.row_stride() : channels_;
  for (Index i = 0; i < rows; ++i) std::copy_n(b1, channels_, out + i * ld);
  Product p{.m = rows, .n = channels_, .k = depth(), .a = u};
  p.lda = depth();
  p.b = element(w1_packed_, head * channels_ * depth(), dtype_);
  p.ldb = depth();
  p.b_transposed = true;
  p.c = out;
  p.ldc = ld;
  p.operands = dtype_;
  p.adds = true;
  context_.products.run(p, worker);
  if (is_direct) return;
  auto* result =
      static_cast<std::uint16_t*>(element(z.data(), begin * z.row_stride() + column, DType::bf16));
  products_.round_rows(sums, rows, channels_, result, z.row_stride());
}

// Few tokens: packing the weights would cost more than the products. u takes the order of w1
// instead, [T, N, C, k1].
void Convolution::forward_few_rows(Tensor z) {
  const auto interleave = [&]<class Element>(const Element* from, Element* to, Index tap) {
    for (Index c = 0; c < channels_; ++c) to[c * k1_ + tap] = from[c];
  };
  // The tasks' own memory is that of their worker; this belongs to all of them.
  const Index u_bytes = tokens_ * heads_ * depth() * size_of(dtype_);
  const Index row_bytes = channels_ * size_of(dtype_);
  const Index w0_bytes = k0_ * width_ * Index{sizeof(float)};
  context_.shared.reset(Workspace::rounded(w0_bytes) + Workspace::rounded(u_bytes) +
                        Workspace::rounded(row_bytes));
  w0_taps_ = static_cast<float*>(context_.shared.take_bytes(w0_bytes));
  void* u = context_.shared.take_bytes(u_bytes);
  void* row = context_.shared.take_bytes(row_bytes);
  pack_taps();
  for (Index t = 0; t < tokens_; ++t) {
    const Segment& segment = segment_of(t);
    for (Index n = 0; n < heads_; ++n) {
      void* to = element(u, (t * heads_ + n) * depth(), dtype_);
      for (Index tap = 0; tap < k1_; ++tap) {
        depthwise(t, tap, segment, n, row);
        if (is_bf16()) {
          interleave(static_cast<const bf16*>(row), static_cast<bf16*>(to), tap);
        } else {
          interleave(static_cast<const float*>(row), static_cast<float*>(to), tap);
        }
      }
    }
  }
  const float* b1 = args_.b1.as<float, 1>().data();
  context_.pool.run(heads_, [&](Index n, int worker) {
    Product p{.m = tokens_, .n = channels_, .k = depth()};
    p.a = element(u, n * depth(), dtype_);
    p.lda = heads_ * depth();
    p.b = element(args_.w1.data(), n * channels_ * depth(), dtype_);
    p.ldb = depth();
    p.b_transposed = true;
    p.c = element(z.data(), n * channels_, z.dtype());
    p.ldc = z.row_stride();
    p.operands = dtype_;
    p.result = z.dtype();
    run_few_rows_tile(context_, p, 0, channels_, b1 + n * channels_, worker);
  });
}

void Convolution::forward(Tensor z) {
  if (tokens_ <= kFewRows) {
    forward_few_rows(z);
    return;
  }
  take_shared(false);
  pack_weights();
  context_.pool.run(num_blocks(kBlock) * heads_, [&](Index task, int worker) {
    const Index begin = task / heads_ * kBlock, head = task % heads_;
    forward_block(begin, std::min(tokens_, begin + kBlock), head, z, worker);
  });
}

Convolution::Part Convolution::part_of(Index task) const {
  float* w1 = parts_ + task * part_floats();
  float* w0 = w1 + channels_ * depth();
  float* b0 = w0 + k0_ * channels_;
  return {w1, w0, b0, b0 + channels_};
}

Convolution::Block Convolution::take_block(int worker) const {
  // Tokens behind the block read what it holds.
  const Index rows = std::min(kBlock, tokens_) + k0_ + k1_ - 2;
  const Index u_bytes = rows * depth() * size_of(dtype_), floats = sizeof(float);
  Workspace& memory = context_.worker[worker];
  memory.reset(Workspace::rounded(u_bytes) + Workspace::rounded(rows * channels_ * floats) +
               Workspace::rounded(channels_ * floats));
  Block block;
  block.u = memory.take_bytes(u_bytes);
  block.du = memory.take<float>(rows * channels_);
  block.row_sum = memory.take<float>(channels_);
  return block;
}

// dw1[o, j, i] += sum over the block of dz[t, o] * u[t, j, i], and db1.
void Convolution::add_weight_gradient(Index begin, Index end, Index head, ConstTensor dz,
                                      const Block& block, const Part& part, int worker) {
  Product p{.m = channels_, .n = depth(), .k = end - begin};
  p.a = element(dz.data(), begin * dz.row_stride() + head * channels_, dtype_);
  p.lda = dz.row_stride();
  p.a_transposed = true;
  p.b = block.u;
  p.ldb = depth();
  p.c = part.w1;
  p.ldc = depth();
  p.operands = dtype_;
  p.adds = true;
  context_.products.run(p, worker);
  products_.add_column_sums(p.a, is_bf16(), dz.row_stride(), end - begin, channels_, part.b1);
}

// dqk0 of the block's tokens, dw0 and db0; block.u holds the gradient of u.
void Convolution::gradient_of_inputs(Index begin, Index end, Index head, Tensor dqk0,
                                     const Block& block, const Part& part) const {
  std::array<const void*, kMaxTaps> taps;
  std::array<const float*, kMaxTaps> readers;
  const auto tap_of = [&](Index t, Index tap) {
    return element(block.u, (t - begin) * depth() + tap * channels_, dtype_);
  };
  const Segment* segment = &segment_of(begin);
  const Index last = std::min(tokens_, end + k0_ - 1);
  for (Index t = begin; t < last; ++t) {
    if (t >= segment->end) segment = &segment_of(t);
    Index count = 0;
    for (Index tap = k1_ - 1; tap >= 0; --tap) {
      const Index reader = t + (k1_ - 1) - tap;
      if (reader < segment->end) taps[count++] = tap_of(reader, tap);
    }
    simd_.sum_parts(taps.data(), count, channels_, is_bf16(), block.du + (t - begin) * channels_);
  }
  segment = &segment_of(begin);
  for (Index t = begin; t < end; ++t) {
    if (t >= segment->end) segment = &segment_of(t);
    const float* du = block.du + (t - begin) * channels_;
    // Every tap starts with b0, also those that read before the segment.
    for (Index tap = 0; tap < k1_; ++tap) taps[tap] = tap_of(t, tap);
    simd_.sum_parts(taps.data(), k1_, channels_, is_bf16(), block.row_sum);
    products_.add_to(block.row_sum, channels_, part.b0);
    for (Index j = 0; j < k0_; ++j) {
      const Index source = t - (k0_ - 1) + j;
      if (source >= segment->begin) {
        simd_.add_products(du, source_row(source, *segment, head), channels_, is_bf16(),
                           part.w0 + j * channels_);
      }
      const Index reader = t + (k0_ - 1) - j;
      readers[j] = reader < segment->end ? block.du + (reader - begin) * channels_ : nullptr;
    }
    simd_.add_taps(readers.data(), w0_taps_ + head * k0_ * channels_, k0_, channels_, is_bf16(),
                   element(dqk0.data(), t * dqk0.row_stride() + head * channels_, dtype_));
  }
}

void Convolution::backward_block(Index begin, Index end, Index head, ConstTensor dz, Tensor dqk0,
                                 const Block& block, const Part& part, int worker) {
  fill_u(begin, end, head, block.u);
  add_weight_gradient(begin, end, head, dz, block, part, worker);
  // The gradient of u, also of the tokens behind the block whose taps read it.
  Product p{.m = std::min(tokens_, end + k0_ + k1_ - 2) - begin, .n = depth(), .k = channels_};
  p.a = element(dz.data(), begin * dz.row_stride() + head * channels_, dtype_);
  p.lda = dz.row_stride();
  p.b = element(w1_packed_, head * channels_ * depth(), dtype_);
  p.ldb = depth();
  p.c = block.u;
  p.ldc = depth();
  p.operands = p.result = dtype_;
  context_.products.run(p, worker);
  gradient_of_inputs(begin, end, head, dqk0, block, part);
}

void Convolution::backward_part(Index task, ConstTensor dz, Tensor dqk0, int worker) {
  const Index num_parts = num_blocks(kPart), head = task / num_parts;
  const Part part = part_of(task);
  const Block block = take_block(worker);
  std::fill_n(part.w1, part_floats(), 0.0f);
  const Index first = task % num_parts * kPart, last = std::min(tokens_, first + kPart);
  for (Index begin = first; begin < last; begin += kBlock) {
    backward_block(begin, std::min(last, begin + kBlock), head, dz, dqk0, block, part, worker);
  }
}

// Adds the parts of each head in order.
void Convolution::add_parts(const ConvolveGradients& d) {
  float* dw0 = d.w0.as<float, 3>().data();
  float* db0 = d.b0.as<float, 1>().data();
  float* dw1 = d.w1.as<float, 3>().data();
  float* db1 = d.b1.as<float, 1>().data();
  const Index num_parts = num_blocks(kPart);
  context_.pool.run(heads_, [&](Index n, int) {
    const Part sum = part_of(n * num_parts);
    for (Index i = 1; i < num_parts; ++i) {
      products_.add_to(part_of(n * num_parts + i).w1, part_floats(), sum.w1);
    }
    for (Index c = 0; c < channels_; ++c) {
      const Index row = n * channels_ + c;
      for (Index j = 0; j < k0_; ++j) dw0[row * k0_ + j] += sum.w0[j * channels_ + c];
      db0[row] += sum.b0[c];
      db1[row] += sum.b1[c];
      for (Index i = 0; i < channels_; ++i) {
        for (Index j = 0; j < k1_; ++j)
          dw1[(row * channels_ + i) * k1_ + j] += sum.w1[(c * k1_ + j) * channels_ + i];
      }
    }
  });
}

void Convolution::backward(ConstTensor dz, Tensor dqk0, const ConvolveGradients& d) {
  take_shared(true);
  pack_weights();
  context_.pool.run(heads_ * num_blocks(kPart),
                    [&](Index task, int worker) { backward_part(task, dz, dqk0, worker); });
  add_parts(d);
}

}  // namespace

void CpuCca::convolve_forward(const ConvolveArgs& args, Tensor z) noexcept {
  if (args.qk0.rows() > 0) Convolution(*context_, args).forward(z);
}

void CpuCca::convolve_backward(const ConvolveArgs& args, ConstTensor dz, Tensor dqk0,
                               const ConvolveGradients& d) noexcept {
  if (args.qk0.rows() > 0) Convolution(*context_, args).backward(dz, dqk0, d);
}

std::unique_ptr<CcaKernels> make_cpu_cca(CpuContextPtr context) {
  return std::make_unique<CpuCca>(std::move(context));
}

}  // namespace zaya
