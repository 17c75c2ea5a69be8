// SPDX-License-Identifier: Apache-2.0
#include "backend/gemm.h"

#include "backend/count/families.h"

namespace zaya::count {

namespace {

class CountGemm final : public GemmKernels, private Counter {
 public:
  explicit CountGemm(WorkCount& count) : Counter(count) {}

  void forward(ConstTensor x, ConstTensor w, ConstTensor, Tensor) noexcept override {
    product(x.dim(0), w.dim(0), w.dim(1));
  }
  void backward_input(ConstTensor dy, ConstTensor w, Tensor, bool) noexcept override {
    product(dy.dim(0), w.dim(1), w.dim(0));
  }
  void backward_weight(ConstTensor dy, ConstTensor x, Tensor, Tensor) noexcept override {
    product(dy.dim(1), x.dim(1), x.dim(0));
  }
  // Half of the result is mirrored.
  void symmetric(ConstTensor x, double, ConstTensor, double, Tensor) noexcept override {
    const double n = static_cast<double>(x.dim(0));
    flops(n * (n + 1) * static_cast<double>(x.dim(1)));
  }
  void multiply_add(ConstTensor p, ConstTensor x, double, Tensor) noexcept override {
    product(p.dim(0), x.dim(1), p.dim(1));
  }
};

}  // namespace

std::unique_ptr<GemmKernels> make_gemm(WorkCount& count) {
  return std::make_unique<CountGemm>(count);
}

}  // namespace zaya::count
