// SPDX-License-Identifier: Apache-2.0
//
// Root-mean-square norm: one trip through memory per row, two through the first-level cache.
#include "backend/norm.h"

#include <utility>

#include "backend/cpu/context.h"
#include "backend/cpu/norm_simd.h"

namespace zaya {

namespace {

class CpuNorm final : public NormKernels {
 public:
  explicit CpuNorm(CpuContextPtr context)
      : context_(std::move(context)), simd_(norm_simd(context_->set)) {}

  void rms_forward(ConstTensor x, ConstTensor w, double eps, Tensor y,
                   Tensor inv_rms) noexcept override {
    const NormForward args = {.x = rows_of(x),
                              .w = w.as<float, 1>().data(),
                              .eps = eps,
                              .width = x.columns(),
                              .y = mutable_rows_of(y),
                              .inv_rms = inv_rms.as<float, 1>().data()};
    ZAYA_CHECK(!args.x.is_bf16);
    run_blocks(context_->pool, x.rows(), kBlockRows,
               [&](Index begin, Index end, int) { simd_.forward(args, begin, end); });
  }

  void rms_backward(ConstTensor x, ConstTensor w, ConstTensor inv_rms, ConstTensor dy, Tensor dx,
                    Tensor dw) noexcept override {
    const NormBackward args = {.x = rows_of(x),
                               .w = w.as<float, 1>().data(),
                               .inv_rms = inv_rms.as<float, 1>().data(),
                               .dy = rows_of(dy),
                               .width = x.columns(),
                               .dx = mutable_rows_of(dx)};
    ZAYA_CHECK(!args.x.is_bf16 && !args.dx.is_bf16);
    const Index blocks = num_blocks(x.rows(), kBlockRows);
    context_->shared.reset(Workspace::rounded(blocks * args.width * Index{sizeof(float)}));
    float* parts = context_->shared.take<float>(blocks * args.width);
    run_blocks(context_->pool, x.rows(), kBlockRows, [&](Index begin, Index end, int) {
      simd_.backward(args, begin, end, parts + begin / kBlockRows * args.width);
    });
    add_parts(*context_, parts, blocks, args.width, dw.as<float, 1>().data());
  }

 private:
  CpuContextPtr context_;
  const NormSimd& simd_;
};

}  // namespace

std::unique_ptr<NormKernels> make_cpu_norm(CpuContextPtr context) {
  return std::make_unique<CpuNorm>(std::move(context));
}

}  // namespace zaya
