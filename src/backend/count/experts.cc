// SPDX-License-Identifier: Apache-2.0
#include "backend/experts.h"

#include "backend/count/families.h"

namespace zaya::count {

namespace {

// Which tokens skip is data, so every token counts as a row of an expert; padding does not count.
Index rows_of(const RowPlan& plan) { return plan.row_of_token.count(); }

class CountExperts final : public ExpertKernels, private Counter {
 public:
  explicit CountExperts(WorkCount& count) : Counter(count) {}

  void dispatch(ConstTensor choice, Index, const RowPlan& plan) noexcept override {
    moves({choice, plan.row_of_token, plan.token_of_row, plan.offsets, plan.loads});
  }
  void gather(ConstTensor x, const RowPlan& plan, Tensor rows) noexcept override {
    moves({plan.token_of_row});
    moves_rows(rows_of(plan), x);
    moves_rows(rows_of(plan), rows);
  }
  void grouped_forward(ConstTensor, ConstTensor w, const RowPlan& plan, Tensor) noexcept override {
    product(rows_of(plan), w.dim(1), w.dim(2));
  }
  void grouped_backward_input(ConstTensor, ConstTensor w, const RowPlan& plan,
                              Tensor) noexcept override {
    product(rows_of(plan), w.dim(2), w.dim(1));
  }
  void grouped_backward_weight(ConstTensor, ConstTensor, const RowPlan& plan,
                               Tensor dw) noexcept override {
    product(dw.dim(1), dw.dim(2), rows_of(plan));
  }
  void swiglu_forward(ConstTensor gu, const RowPlan& plan, Tensor a) noexcept override {
    moves_rows(rows_of(plan), gu);
    moves_rows(rows_of(plan), a);
  }
  void swiglu_backward(ConstTensor gu, ConstTensor da, ConstTensor weight, const RowPlan& plan,
                       Tensor dgu, Tensor wa, Tensor dweight) noexcept override {
    moves({weight, dweight});
    for (const ConstTensor& x : {gu, da, ConstTensor(dgu), ConstTensor(wa)}) {
      moves_rows(rows_of(plan), x);
    }
  }
  void combine_forward(ConstTensor y, ConstTensor, ConstTensor weight, const RowPlan& plan, bool,
                       Tensor out) noexcept override {
    moves({plan.row_of_token, weight, out});
    moves_rows(rows_of(plan), y);
  }
  void combine_backward(ConstTensor drows, ConstTensor, ConstTensor, ConstTensor,
                        const RowPlan& plan, bool, Tensor dx, Tensor) noexcept override {
    moves({plan.row_of_token, dx});
    moves_rows(rows_of(plan), drows);
  }
};

}  // namespace

std::unique_ptr<ExpertKernels> make_experts(WorkCount& count) {
  return std::make_unique<CountExperts>(count);
}

}  // namespace zaya::count
