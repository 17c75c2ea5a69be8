// SPDX-License-Identifier: Apache-2.0
#include "backend/move.h"

#include "backend/count/families.h"

namespace zaya::count {

namespace {

class CountMove final : public MoveKernels, private Counter {
 public:
  explicit CountMove(WorkCount& count) : Counter(count) {}

  void zero(Tensor x) noexcept override { moves({x}); }
  void copy(ConstTensor from, Tensor to) noexcept override { moves({from, to}); }
  void add(ConstTensor from, double, Tensor to) noexcept override { moves({from, to, to}); }
  void scale(double, Tensor x) noexcept override { moves({x, x}); }
  // How many rows are masked is data; there may be none.
  void zero_rows(ConstTensor mask, Tensor) noexcept override { moves({mask}); }
  void gather_rows(ConstTensor x, ConstTensor rows, Tensor out) noexcept override {
    moves({rows, out});
    moves_rows(rows.count(), x);
  }
  void transpose(ConstTensor x, Tensor y) noexcept override { moves({x, y}); }
};

}  // namespace

std::unique_ptr<MoveKernels> make_move(WorkCount& count) {
  return std::make_unique<CountMove>(count);
}

}  // namespace zaya::count
