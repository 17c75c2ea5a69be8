// SPDX-License-Identifier: Apache-2.0
#include "backend/router.h"

#include "backend/count/families.h"

namespace zaya::count {

namespace {

class CountRouter final : public RouterKernels, private Counter {
 public:
  explicit CountRouter(WorkCount& count) : Counter(count) {}

  void depth_forward(ConstTensor prev, ConstTensor scale, Tensor h) noexcept override {
    moves({prev, scale, h, h});
  }
  void depth_backward(ConstTensor prev, ConstTensor scale, ConstTensor dh, Tensor dprev,
                      Tensor dscale) noexcept override {
    moves({prev, scale, dh, dprev, dscale, dscale});
  }
  void gelu_forward(ConstTensor x, Tensor y) noexcept override { moves({x, y}); }
  void gelu_backward(ConstTensor x, ConstTensor dy, Tensor dx) noexcept override {
    moves({x, dy, dx});
  }
  void choose_forward(ConstTensor logits, ConstTensor bias, Tensor probs, Tensor choice,
                      Tensor weight) noexcept override {
    moves({logits, bias, probs, choice, weight});
  }
  void choose_backward(ConstTensor probs, ConstTensor choice, ConstTensor dweight,
                       Tensor dlogits) noexcept override {
    moves({probs, choice, dweight, dlogits});
  }
};

}  // namespace

std::unique_ptr<RouterKernels> make_router(WorkCount& count) {
  return std::make_unique<CountRouter>(count);
}

}  // namespace zaya::count
