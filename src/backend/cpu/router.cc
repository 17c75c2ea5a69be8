// SPDX-License-Identifier: Apache-2.0
//
// Element-wise parts of the router.
#include "backend/router.h"

#include <utility>

#include "backend/cpu/context.h"
#include "backend/cpu/router_simd.h"

namespace zaya {

namespace {

// GELU costs more per element than a copy, so its blocks are shorter.
constexpr Index kGeluElements = 4096;

ConstRows f32_rows(const ConstTensor& x) {
  const ConstRows rows = rows_of(x);
  ZAYA_CHECK(!rows.is_bf16);
  return rows;
}

Rows f32_rows(const Tensor& x) {
  const Rows rows = mutable_rows_of(x);
  ZAYA_CHECK(!rows.is_bf16);
  return rows;
}

class CpuRouter final : public RouterKernels {
 public:
  explicit CpuRouter(CpuContextPtr context)
      : context_(std::move(context)), simd_(router_simd(context_->set)) {}

  void depth_forward(ConstTensor prev, ConstTensor scale, Tensor h) noexcept override {
    const DepthRows args = depth_rows(prev, scale);
    const Rows to = f32_rows(h);
    run_blocks(context_->pool, h.rows(), kBlockRows,
               [&](Index begin, Index end, int) { simd_.depth_forward(args, begin, end, to); });
  }

  void depth_backward(ConstTensor prev, ConstTensor scale, ConstTensor dh, Tensor dprev,
                      Tensor dscale) noexcept override {
    const DepthRows args = depth_rows(prev, scale);
    const ConstRows from = f32_rows(dh);
    const Rows to = f32_rows(dprev);
    const Index blocks = num_blocks(dh.rows(), kBlockRows);
    context_->shared.reset(Workspace::rounded(blocks * args.width * Index{sizeof(float)}));
    float* parts = context_->shared.take<float>(blocks * args.width);
    run_blocks(context_->pool, dh.rows(), kBlockRows, [&](Index begin, Index end, int) {
      simd_.depth_backward(args, begin, end, from, to, parts + begin / kBlockRows * args.width);
    });
    add_parts(*context_, parts, blocks, args.width, dscale.as<float, 1>().data());
  }

  void gelu_forward(ConstTensor x, Tensor y) noexcept override {
    const float* from = x.as<float, 1>().data();
    float* to = y.as<float, 1>().data();
    run_blocks(context_->pool, x.count(), kGeluElements, [&](Index begin, Index end, int) {
      simd_.gelu_forward(from + begin, end - begin, to + begin);
    });
  }

  void gelu_backward(ConstTensor x, ConstTensor dy, Tensor dx) noexcept override {
    const float* from = x.as<float, 1>().data();
    const float* dy_from = dy.as<float, 1>().data();
    float* to = dx.as<float, 1>().data();
    run_blocks(context_->pool, x.count(), kGeluElements, [&](Index begin, Index end, int) {
      simd_.gelu_backward(from + begin, dy_from + begin, end - begin, to + begin);
    });
  }

  void choose_forward(ConstTensor logits, ConstTensor bias, Tensor probs, Tensor choice,
                      Tensor weight) noexcept override {
    const ChooseRows args = {.logits = f32_rows(logits),
                             .bias = bias.as<float, 1>().data(),
                             .num_classes = logits.columns(),
                             .probs = f32_rows(probs),
                             .choice = choice.as<std::int32_t, 1>().data(),
                             .weight = weight.as<float, 1>().data()};
    run_blocks(context_->pool, logits.rows(), kBlockRows,
               [&](Index begin, Index end, int) { simd_.choose_forward(args, begin, end); });
  }

  void choose_backward(ConstTensor probs, ConstTensor choice, ConstTensor dweight,
                       Tensor dlogits) noexcept override {
    const ChooseBackward args = {.probs = f32_rows(probs),
                                 .choice = choice.as<std::int32_t, 1>().data(),
                                 .dweight = dweight.as<float, 1>().data(),
                                 .num_classes = probs.columns(),
                                 .dlogits = f32_rows(dlogits)};
    run_blocks(context_->pool, probs.rows(), kBlockRows,
               [&](Index begin, Index end, int) { simd_.choose_backward(args, begin, end); });
  }

 private:
  static DepthRows depth_rows(ConstTensor prev, ConstTensor scale) {
    return {.prev = prev.as<float, 2>().data(),
            .prev_stride = prev.row_stride(),
            .scale = scale.as<float, 1>().data(),
            .width = prev.columns()};
  }

  CpuContextPtr context_;
  const RouterSimd& simd_;
};

}  // namespace

std::unique_ptr<RouterKernels> make_cpu_router(CpuContextPtr context) {
  return std::make_unique<CpuRouter>(std::move(context));
}

}  // namespace zaya
