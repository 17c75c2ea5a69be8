// SPDX-License-Identifier: Apache-2.0
//
// Output head and cross-entropy, a chunk of tokens at a time: logits into the scratch, softmax and
// gradient in place, then the two gradient products of the chunk.
#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/cpu/loss_simd.h"
#include "backend/cpu/product_simd.h"
#include "backend/cpu/tiles.h"

namespace zaya {

namespace {

constexpr Index kBiasColumns = 256;

class CpuLoss final : public LossKernels {
 public:
  explicit CpuLoss(CpuContextPtr context)
      : context_(std::move(context)),
        simd_(loss_simd(context_->set)),
        products_(product_simd(context_->set)) {}

  double cross_entropy(const LossArgs& args, const LossGradients* d,
                       Tensor logprobs) noexcept override;

 private:
  void compute_logits(const LossArgs& args, ConstTensor x, Tensor logits);
  void softmax(const LossArgs& args, Index begin, Tensor logits, const LossGradients* d,
               double* losses);
  void add_gradients(const LossArgs& args, Index begin, Tensor logits, const LossGradients& d);

  CpuContextPtr context_;
  const LossSimd& simd_;
  const ProductSimd& products_;
};

void CpuLoss::compute_logits(const LossArgs& args, ConstTensor x, Tensor logits) {
  const Product whole = product_of(x, false, args.w, true, logits);
  if (args.bias.is_none()) {
    run_product(*context_, whole, nullptr);
    return;
  }
  const float* bias = args.bias.as<float, 1>().data();
  const auto start_with_bias = [&](const Tile& tile, float* sums, Index ld) {
    for (Index i = 0; i < tile.rows; ++i)
      std::copy_n(bias + tile.column, tile.columns, sums + i * ld);
  };
  const FillTile fill(start_with_bias);
  run_product(*context_, whole, &fill);
}

// Losses of the chunk's rows, and the gradient in place of the logits: in the compute type from the
// start of each row on.
void CpuLoss::softmax(const LossArgs& args, Index begin, Tensor logits, const LossGradients* d,
                      double* losses) {
  const auto targets = args.targets.as<std::int32_t, 1>();
  const bool is_bf16 = context_->compute() == DType::bf16;
  const Index vocabulary = logits.columns();
  float* values = logits.as<float, 2>().data();
  context_->pool.run(logits.rows(), [&](Index row, int) {
    float* z = values + row * vocabulary;
    const Index target = targets[begin + row];
    losses[row] = 0;
    if (target < 0) {
      if (d != nullptr) std::fill_n(z, vocabulary, 0.0f);
      return;
    }
    const float largest = simd_.maximum(z, vocabulary), aim = z[target];
    const double sum = simd_.sum_exp(z, vocabulary, largest, d != nullptr);
    losses[row] = std::log(sum) + (static_cast<double>(largest) - static_cast<double>(aim));
    if (d == nullptr) return;
    // e / sum - 1 at the target: there the terms are shifted by the whole sum.
    z[target] -= static_cast<float>(sum);
    simd_.scale(z, vocabulary, static_cast<float>(d->scale / sum), is_bf16);
  });
}

void CpuLoss::add_gradients(const LossArgs& args, Index begin, Tensor logits,
                            const LossGradients& d) {
  const DType compute = context_->compute();
  const Index rows = logits.rows(), vocabulary = logits.columns();
  const Index stride = vocabulary * (size_of(logits.dtype()) / size_of(compute));
  const ConstTensor dlogits(logits.data(), compute, Shape{rows, vocabulary}, stride);
  run_product(*context_, product_of(dlogits, false, args.w, false, d.dx.slice(begin, begin + rows)),
              nullptr);
  Product dw = product_of(dlogits, true, args.x.slice(begin, begin + rows), false, d.dw);
  dw.adds = true;
  run_product(*context_, dw, nullptr);
  if (d.dbias.is_none()) return;
  float* sums = d.dbias.as<float, 1>().data();
  context_->pool.run((vocabulary + kBiasColumns - 1) / kBiasColumns, [&](Index task, int) {
    const Index column = task * kBiasColumns;
    products_.add_column_sums(element(dlogits.data(), column, compute), compute == DType::bf16,
                              stride, rows, std::min(kBiasColumns, vocabulary - column),
                              sums + column);
  });
}

double CpuLoss::cross_entropy(const LossArgs& args, const LossGradients* d,
                              Tensor logprobs) noexcept {
  const Index num_tokens = args.x.rows(), vocabulary = args.w.rows();
  const Index chunk = args.scratch.rows();
  context_->shared.reset(Workspace::rounded(chunk * Index{sizeof(double)}));
  double* losses = context_->shared.take<double>(chunk);
  double loss = 0;
  for (Index begin = 0; begin < num_tokens; begin += chunk) {
    const Index rows = std::min(chunk, num_tokens - begin);
    const Tensor logits(args.scratch.data(), args.scratch.dtype(), Shape{rows, vocabulary});
    compute_logits(args, args.x.slice(begin, begin + rows), logits);
    softmax(args, begin, logits, d, losses);
    if (d != nullptr) add_gradients(args, begin, logits, *d);
    for (Index i = 0; i < rows; ++i) loss += losses[i];
    if (logprobs.is_none()) continue;
    const auto log_p = logprobs.as<float, 1>();
    for (Index i = 0; i < rows; ++i) log_p[begin + i] = static_cast<float>(-losses[i]);
  }
  return loss;
}

}  // namespace

std::unique_ptr<LossKernels> make_cpu_loss(CpuContextPtr context) {
  return std::make_unique<CpuLoss>(std::move(context));
}

}  // namespace zaya
