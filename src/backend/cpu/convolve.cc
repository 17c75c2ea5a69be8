// SPDX-License-Identifier: Apache-2.0
//
// The two convolutions of attention's prologue. The first is depthwise and cheap; its outputs are
// laid out tap by tap in the scratch, [T, N, k1, C], so that the second is one product per head:
// z[:, n] = scratch[:, n] w1[n]^T with w1 packed as [N, C, k1, C]. Blocks of tokens go through both
// while they are in the cache.
#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/cca.h"
#include "backend/cpu/convolve_simd.h"
#include "backend/cpu/product_simd.h"
#include "backend/cpu/tiles.h"

namespace zaya {

namespace {

constexpr Index kBlock = 128;         // tokens that pass both convolutions together
constexpr Index kBackwardBlock = 64;  // tokens whose sums of depthwise gradients form one part
constexpr Index kMaxTaps = 64;
constexpr Index kBiasColumns = 64;

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
  bool is_bf16() const { return dtype_ == DType::bf16; }
  Index num_blocks(Index length) const { return (tokens_ + length - 1) / length; }
  Index scratch_width() const { return width_ * k1_; }
  Index head_stride() const { return k1_ * channels_; }
  // The segment that holds token t.
  const Segment& segment_of(Index t) const;
  const void* source_row(Index t, const Segment& segment) const;
  void* scratch_at(Index t, Index tap) const {
    return element(args_.scratch.data(), t * scratch_width() + tap * channels_, dtype_);
  }
  // Shared memory of the call: w0 tap-major, w1 packed, parts of depthwise gradients.
  void take_shared(bool is_backward);
  void pack_weights();
  void depthwise(Index t, Index tap, const Segment& segment, void* out) const;
  void fill_scratch(Index begin, Index end) const;
  Product forward_product(Tensor z) const;
  void convolve_block(Index begin, Index end, const Product& whole, int worker) const;
  void forward_few_rows(Tensor z);
  void add_weight_gradient(ConstTensor dz, Tensor dw1);
  void add_column_sums(ConstTensor dz, Tensor db1);
  void input_gradient(ConstTensor dz);
  void depthwise_gradient(Index block, Tensor dqk0, int worker);
  void gradient_of_u(Index t, const Segment& segment, float* du) const;
  void add_parts(const ConvolveGradients& d);

  CpuContext& context_;
  const ConvolveSimd& simd_;
  const ProductSimd& products_;
  const ConvolveArgs& args_;
  Index tokens_, width_, heads_, channels_, k0_, k1_;
  DType dtype_;
  float* w0_taps_ = nullptr;   // [k0, W]
  void* w1_packed_ = nullptr;  // [N, C, k1, C]
  float* parts_ = nullptr;     // [blocks, k0 + 1, W]: dw0 tap-major, then db0
};

const Segment& Convolution::segment_of(Index t) const {
  const auto next = std::upper_bound(args_.segments.begin(), args_.segments.end(), t,
                                     [](Index a, const Segment& s) { return a < s.begin; });
  return *(next - 1);
}

// Row t of qk0 as token t of this segment sees it; null: zeros.
const void* Convolution::source_row(Index t, const Segment& segment) const {
  if (t >= segment.begin) return element(args_.qk0.data(), t * args_.qk0.row_stride(), dtype_);
  const Index depth = k0_ + k1_ - 2, back = segment.begin - t;
  if (segment.history < 0 || args_.history.is_none() || back > depth) return nullptr;
  return element(args_.history.data(), (segment.history * depth + depth - back) * width_, dtype_);
}

void Convolution::take_shared(bool is_backward) {
  const Index w0_bytes = k0_ * width_ * Index{sizeof(float)};
  const Index w1_bytes = width_ * head_stride() * size_of(dtype_);
  const Index part_bytes =
      is_backward ? num_blocks(kBackwardBlock) * (k0_ + 1) * width_ * Index{sizeof(float)} : 0;
  context_.shared.reset(Workspace::rounded(w0_bytes) + Workspace::rounded(w1_bytes) +
                        Workspace::rounded(part_bytes));
  w0_taps_ = static_cast<float*>(context_.shared.take_bytes(w0_bytes));
  w1_packed_ = context_.shared.take_bytes(w1_bytes);
  parts_ = static_cast<float*>(context_.shared.take_bytes(part_bytes));
  const float* w0 = args_.w0.as<float, 3>().data();
  for (Index j = 0; j < k0_; ++j) {
    for (Index c = 0; c < width_; ++c) w0_taps_[j * width_ + c] = w0[c * k0_ + j];
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

// The first convolution's output at token t, written with gaps between heads.
void Convolution::depthwise(Index t, Index tap, const Segment& segment, void* out) const {
  std::array<const void*, kMaxTaps> rows;
  const Index at = t - (k1_ - 1) + tap;
  for (Index j = 0; j < k0_; ++j) rows[j] = source_row(at - (k0_ - 1) + j, segment);
  simd_.depthwise_row(rows.data(), w0_taps_, args_.b0.as<float, 1>().data(), k0_, heads_, channels_,
                      is_bf16(), out, head_stride());
}

void Convolution::fill_scratch(Index begin, Index end) const {
  const std::size_t head_bytes = static_cast<std::size_t>(channels_ * size_of(dtype_));
  for (Index t = begin; t < end; ++t) {
    const Segment& segment = segment_of(t);
    // Earlier taps are the later taps of the token before.
    const bool has_previous = t > begin && t > segment.begin;
    for (Index tap = 0; tap < k1_; ++tap) {
      if (!has_previous || tap + 1 == k1_) {
        depthwise(t, tap, segment, scratch_at(t, tap));
        continue;
      }
      for (Index n = 0; n < heads_; ++n) {
        const Index head = n * head_stride();
        std::memcpy(element(scratch_at(t, tap), head, dtype_),
                    element(scratch_at(t - 1, tap + 1), head, dtype_), head_bytes);
      }
    }
  }
}

// The product of head 0.
Product Convolution::forward_product(Tensor z) const {
  Product p;
  p.m = tokens_;
  p.n = channels_;
  p.k = head_stride();
  p.a = args_.scratch.data();
  p.lda = scratch_width();
  p.b = w1_packed_;
  p.ldb = head_stride();
  p.b_transposed = true;
  p.c = z.data();
  p.ldc = z.row_stride();
  p.operands = dtype_;
  p.result = z.dtype();
  return p;
}

void Convolution::convolve_block(Index begin, Index end, const Product& whole, int worker) const {
  fill_scratch(begin, end);
  const float* b1 = args_.b1.as<float, 1>().data();
  for (Index n = 0; n < heads_; ++n) {
    Product p = whole;
    p.a = element(p.a, n * head_stride(), dtype_);
    p.b = element(p.b, n * channels_ * head_stride(), dtype_);
    p.c = element(p.c, n * channels_, p.result);
    const auto start_with_bias = [&](const Tile& tile, float* sums, Index ld) {
      for (Index i = 0; i < tile.rows; ++i)
        std::copy_n(b1 + n * channels_, channels_, sums + i * ld);
    };
    const FillTile fill(start_with_bias);
    run_tile(context_, p, {.row = begin, .column = 0, .rows = end - begin, .columns = channels_},
             &fill, worker);
  }
}

// Few tokens: packing the weights would cost more than the products. The scratch takes the order of
// w1 instead, [T, N, C, k1].
void Convolution::forward_few_rows(Tensor z) {
  const auto interleave = [&]<class Element>(const Element* u, Element* out, Index tap) {
    for (Index c = 0; c < width_; ++c)
      out[c * k1_ + tap] = u[c / channels_ * head_stride() + c % channels_];
  };
  context_.worker[0].reset(scratch_width() * size_of(dtype_));
  void* row = context_.worker[0].take_bytes(scratch_width() * size_of(dtype_));
  for (Index t = 0; t < tokens_; ++t) {
    for (Index tap = 0; tap < k1_; ++tap) {
      depthwise(t, tap, segment_of(t), row);
      if (is_bf16()) {
        interleave(static_cast<const bf16*>(row), static_cast<bf16*>(scratch_at(t, 0)), tap);
      } else {
        interleave(static_cast<const float*>(row), static_cast<float*>(scratch_at(t, 0)), tap);
      }
    }
  }
  const Product whole = forward_product(z);
  const float* b1 = args_.b1.as<float, 1>().data();
  context_.pool.run(heads_, [&](Index n, int worker) {
    Product p = whole;
    p.a = element(p.a, n * head_stride(), dtype_);
    p.b = element(args_.w1.data(), n * channels_ * head_stride(), dtype_);
    p.c = element(p.c, n * channels_, p.result);
    run_few_rows_tile(context_, p, 0, channels_, b1 + n * channels_, worker);
  });
}

void Convolution::forward(Tensor z) {
  take_shared(false);
  if (tokens_ <= kFewRows) {
    forward_few_rows(z);
    return;
  }
  pack_weights();
  const Product whole = forward_product(z);
  context_.pool.run(num_blocks(kBlock), [&](Index task, int worker) {
    const Index begin = task * kBlock;
    convolve_block(begin, std::min(tokens_, begin + kBlock), whole, worker);
  });
}

// dw1[n, o, i, j] += sum over t of dz[t, n, o] * scratch[t, n, j, i].
void Convolution::add_weight_gradient(ConstTensor dz, Tensor dw1) {
  float* sums = dw1.as<float, 3>().data();
  context_.pool.run(heads_ * k1_, [&](Index task, int worker) {
    const Index n = task / k1_, j = task % k1_;
    const Index square = channels_ * channels_;
    Workspace& memory = context_.worker[worker];
    memory.reset(Workspace::rounded(square * Index{sizeof(float)}));
    float* tap = memory.take<float>(square);
    Product p;
    p.m = p.n = channels_;
    p.k = tokens_;
    p.a = element(dz.data(), n * channels_, dtype_);
    p.lda = dz.row_stride();
    p.a_transposed = true;
    p.b = element(args_.scratch.data(), n * head_stride() + j * channels_, dtype_);
    p.ldb = scratch_width();
    p.c = tap;
    p.ldc = channels_;
    p.operands = dtype_;
    context_.products.run(p, worker);
    for (Index k = 0; k < square; ++k) sums[(n * square + k) * k1_ + j] += tap[k];
  });
}

void Convolution::add_column_sums(ConstTensor dz, Tensor db1) {
  float* sums = db1.as<float, 1>().data();
  context_.pool.run((width_ + kBiasColumns - 1) / kBiasColumns, [&](Index task, int) {
    const Index column = task * kBiasColumns;
    products_.add_column_sums(element(dz.data(), column, dtype_), is_bf16(), dz.row_stride(),
                              tokens_, std::min(kBiasColumns, width_ - column), sums + column);
  });
}

// Overwrites the scratch with its own gradient: dz[:, n] w1[n].
void Convolution::input_gradient(ConstTensor dz) {
  const Index blocks = num_blocks(kBlock);
  context_.pool.run(blocks * heads_, [&](Index task, int worker) {
    const Index begin = task / heads_ * kBlock, n = task % heads_;
    Product p;
    p.m = std::min(kBlock, tokens_ - begin);
    p.n = head_stride();
    p.k = channels_;
    p.a = element(dz.data(), begin * dz.row_stride() + n * channels_, dtype_);
    p.lda = dz.row_stride();
    p.b = element(w1_packed_, n * channels_ * head_stride(), dtype_);
    p.ldb = head_stride();
    p.c = element(scratch_at(begin, 0), n * head_stride(), dtype_);
    p.ldc = scratch_width();
    p.operands = p.result = dtype_;
    context_.products.run(p, worker);
  });
}

// Gradient of u at token t from all taps that read it.
void Convolution::gradient_of_u(Index t, const Segment& segment, float* du) const {
  std::array<const void*, kMaxTaps> parts;
  Index count = 0;
  for (Index tap = k1_ - 1; tap >= 0; --tap) {
    const Index reader = t + (k1_ - 1) - tap;
    if (reader < segment.end) parts[count++] = scratch_at(reader, tap);
  }
  simd_.sum_parts(parts.data(), count, heads_, channels_, head_stride(), is_bf16(), du);
}

// dqk0 of one block of tokens, and its part of the gradients of w0 and b0.
void Convolution::depthwise_gradient(Index block, Tensor dqk0, int worker) {
  const Index begin = block * kBackwardBlock, end = std::min(tokens_, begin + kBackwardBlock);
  const Index num_rows = end - begin + k0_ - 1;
  Workspace& memory = context_.worker[worker];
  memory.reset(Workspace::rounded(num_rows * width_ * Index{sizeof(float)}) +
               Workspace::rounded(width_ * Index{sizeof(float)}));
  float* du = memory.take<float>(num_rows * width_);
  float* row_sum = memory.take<float>(width_);
  float* dw0 = parts_ + block * (k0_ + 1) * width_;
  float* db0 = dw0 + k0_ * width_;
  std::fill_n(dw0, (k0_ + 1) * width_, 0.0f);
  const Index last = std::min(tokens_, end + k0_ - 1);
  for (Index t = begin; t < last; ++t) gradient_of_u(t, segment_of(t), du + (t - begin) * width_);
  std::array<const void*, kMaxTaps> taps;
  std::array<const float*, kMaxTaps> readers;
  for (Index t = begin; t < end; ++t) {
    const Segment& segment = segment_of(t);
    const float* du_row = du + (t - begin) * width_;
    // Every tap of the scratch starts with b0, also those before the segment.
    for (Index tap = 0; tap < k1_; ++tap) taps[tap] = scratch_at(t, tap);
    simd_.sum_parts(taps.data(), k1_, heads_, channels_, head_stride(), is_bf16(), row_sum);
    simd_.add_to(row_sum, width_, db0);
    for (Index j = 0; j < k0_; ++j) {
      const Index source = t - (k0_ - 1) + j;
      if (source >= segment.begin) {
        simd_.add_products(du_row, source_row(source, segment), width_, is_bf16(),
                           dw0 + j * width_);
      }
      const Index reader = t + (k0_ - 1) - j;
      readers[j] = reader < segment.end ? du + (reader - begin) * width_ : nullptr;
    }
    simd_.add_taps(readers.data(), w0_taps_, k0_, width_, is_bf16(),
                   element(dqk0.data(), t * dqk0.row_stride(), dtype_));
  }
}

// Adds the parts of all blocks in order.
void Convolution::add_parts(const ConvolveGradients& d) {
  float* dw0 = d.w0.as<float, 3>().data();
  float* db0 = d.b0.as<float, 1>().data();
  const Index blocks = num_blocks(kBackwardBlock), size = (k0_ + 1) * width_;
  for (Index block = 1; block < blocks; ++block) simd_.add_to(parts_ + block * size, size, parts_);
  for (Index c = 0; c < width_; ++c) {
    for (Index j = 0; j < k0_; ++j) dw0[c * k0_ + j] += parts_[j * width_ + c];
    db0[c] += parts_[k0_ * width_ + c];
  }
}

void Convolution::backward(ConstTensor dz, Tensor dqk0, const ConvolveGradients& d) {
  take_shared(true);
  pack_weights();
  context_.pool.run(num_blocks(kBlock), [&](Index task, int) {
    const Index begin = task * kBlock;
    fill_scratch(begin, std::min(tokens_, begin + kBlock));
  });
  add_weight_gradient(dz, d.w1);
  add_column_sums(dz, d.b1);
  input_gradient(dz);
  context_.pool.run(num_blocks(kBackwardBlock),
                    [&](Index block, int worker) { depthwise_gradient(block, dqk0, worker); });
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
