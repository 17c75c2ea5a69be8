// SPDX-License-Identifier: Apache-2.0
#include "backend/optim.h"

#include "backend/count/families.h"

namespace zaya::count {

namespace {

class CountOptim final : public OptimKernels, private Counter {
 public:
  explicit CountOptim(WorkCount& count) : Counter(count) {}

  void adamw(const AdamWArgs& args) noexcept override {
    moves({args.grad, args.value, args.value, args.first_moment, args.first_moment,
           args.second_moment, args.second_moment, args.copy});
  }
  void momentum(ConstTensor grad, double, double, bool, Tensor buffer,
                Tensor out) noexcept override {
    moves({grad, buffer, buffer, out});
  }
  void decayed_add(Tensor value, ConstTensor update, double, double,
                   Tensor copy) noexcept override {
    moves({value, value, update, copy});
  }
  double sum_squares(ConstTensor x) noexcept override {
    moves({x});
    return 0;
  }
};

}  // namespace

std::unique_ptr<OptimKernels> make_optim(WorkCount& count) {
  return std::make_unique<CountOptim>(count);
}

}  // namespace zaya::count
