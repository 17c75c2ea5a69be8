// SPDX-License-Identifier: Apache-2.0
#include "backend/residual.h"

#include "backend/count/families.h"

namespace zaya::count {

namespace {

class CountResidual final : public ResidualKernels, private Counter {
 public:
  explicit CountResidual(WorkCount& count) : Counter(count) {}

  void entry_forward(ConstTensor ids, ConstTensor table, ConstTensor b, ConstTensor s,
                     Tensor x) noexcept override {
    moves({ids, b, s, x});
    moves_rows(ids.count(), table);
  }
  void entry_backward(ConstTensor ids, ConstTensor table, ConstTensor b, ConstTensor s,
                      ConstTensor dx, Index, Tensor dtable, Tensor db,
                      Tensor ds) noexcept override {
    moves({ids, b, s, dx, db, db, ds, ds});
    moves_rows(ids.count(), table);
    moves_rows(2 * ids.count(), dtable);
  }
  void mix_forward(ConstTensor r, ConstTensor a, const MixVectors& p, Tensor y) noexcept override {
    moves({r, a, p.s_r, p.b_r, p.s_a, p.b_a, y});
  }
  void mix_backward(ConstTensor r, ConstTensor a, const MixVectors& p, Tensor dr, Tensor da,
                    const MixGradients& d) noexcept override {
    moves({r, a, p.s_r, p.b_r, p.s_a, p.b_a, dr, dr, da});
    moves({d.s_r, d.s_r, d.b_r, d.b_r, d.s_a, d.s_a, d.b_a, d.b_a});
  }
};

}  // namespace

std::unique_ptr<ResidualKernels> make_residual(WorkCount& count) {
  return std::make_unique<CountResidual>(count);
}

}  // namespace zaya::count
