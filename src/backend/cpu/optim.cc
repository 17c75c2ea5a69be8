// SPDX-License-Identifier: Apache-2.0
//
// Element-wise parts of the optimizers: every array is read and written once, the compute copy
// included.
#include "backend/optim.h"

#include <cmath>
#include <utility>

#include "backend/cpu/context.h"
#include "backend/cpu/optim_simd.h"
#include "backend/cpu/tiles.h"

namespace zaya {

namespace {

AdamWFactors factors_of(const AdamWArgs& args) {
  return {.grad_scale = static_cast<float>(args.grad_scale),
          .decay = static_cast<float>(args.learning_rate * args.weight_decay),
          .beta1 = static_cast<float>(args.beta1),
          .new1 = static_cast<float>(1 - args.beta1),
          .beta2 = static_cast<float>(args.beta2),
          .new2 = static_cast<float>(1 - args.beta2),
          .step = static_cast<float>(args.learning_rate / args.correction1),
          .root_scale = static_cast<float>(1 / std::sqrt(args.correction2)),
          .eps = static_cast<float>(args.eps)};
}

// A contiguous tensor as one row; no tensor: a null address.
Rows flat(const Tensor& x) {
  if (x.is_none()) return {};
  ZAYA_CHECK(x.is_contiguous());
  return mutable_rows_of(x);
}
ConstRows flat(const ConstTensor& x) {
  ZAYA_CHECK(x.is_contiguous());
  return rows_of(x);
}

void* advanced(const Rows& x, Index begin) {
  if (x.data == nullptr) return nullptr;
  return element(x.data, begin, x.is_bf16 ? DType::bf16 : DType::f32);
}

class CpuOptim final : public OptimKernels {
 public:
  explicit CpuOptim(CpuContextPtr context)
      : context_(std::move(context)), simd_(optim_simd(context_->set)) {}

  void adamw(const AdamWArgs& args) noexcept override {
    const AdamWFactors factors = factors_of(args);
    float* value = args.value.as<float, 1>().data();
    float* first = args.first_moment.as<float, 1>().data();
    float* second = args.second_moment.as<float, 1>().data();
    const float* grad = args.grad.as<float, 1>().data();
    const Rows copy = flat(args.copy);
    for_blocks(args.value.count(), [&](Index begin, Index end, int) {
      const AdamWPart part = {.value = value + begin,
                              .first = first + begin,
                              .second = second + begin,
                              .grad = grad + begin,
                              .copy = advanced(copy, begin),
                              .copy_is_bf16 = copy.is_bf16};
      simd_.adamw(factors, part, end - begin);
    });
  }

  void momentum(ConstTensor grad, double scale, double mu, bool nesterov, Tensor buffer,
                Tensor out) noexcept override {
    const MomentumFactors factors = {
        .scale = static_cast<float>(scale), .mu = static_cast<float>(mu), .nesterov = nesterov};
    const float* from = grad.as<float, 1>().data();
    float* state = buffer.as<float, 1>().data();
    const Rows to = flat(out);
    for_blocks(grad.count(), [&](Index begin, Index end, int) {
      simd_.momentum(factors, from + begin, end - begin, state + begin, advanced(to, begin),
                     to.is_bf16);
    });
  }

  void decayed_add(Tensor value, ConstTensor update, double decay, double step,
                   Tensor copy) noexcept override {
    const float shrink = static_cast<float>(decay), factor = static_cast<float>(step);
    float* values = value.as<float, 1>().data();
    const ConstRows from = flat(update);
    const Rows to = flat(copy);
    for_blocks(value.count(), [&](Index begin, Index end, int) {
      const ConstRows from_part = {.data = element(from.data, begin, update.dtype()),
                                   .is_bf16 = from.is_bf16};
      const Rows to_part = {.data = advanced(to, begin), .is_bf16 = to.is_bf16};
      simd_.decayed_add(shrink, factor, from_part, end - begin, values + begin, to_part);
    });
  }

  double sum_squares(ConstTensor x) noexcept override {
    const ConstRows from = flat(x);
    const Index blocks = num_blocks(x.count(), kBlockElements);
    context_->shared.reset(Workspace::rounded(blocks * Index{sizeof(double)}));
    double* sums = context_->shared.take<double>(blocks);
    for_blocks(x.count(), [&](Index begin, Index end, int) {
      const ConstRows part = {.data = element(from.data, begin, x.dtype()),
                              .is_bf16 = from.is_bf16};
      sums[begin / kBlockElements] = simd_.sum_squares(part, end - begin);
    });
    double total = 0;
    for (Index block = 0; block < blocks; ++block) total += sums[block];
    return total;
  }

 private:
  template <class Body>
  void for_blocks(Index count, Body&& body) {
    run_blocks(context_->pool, count, kBlockElements, body);
  }

  CpuContextPtr context_;
  const OptimSimd& simd_;
};

}  // namespace

std::unique_ptr<OptimKernels> make_cpu_optim(CpuContextPtr context) {
  return std::make_unique<CpuOptim>(std::move(context));
}

}  // namespace zaya
