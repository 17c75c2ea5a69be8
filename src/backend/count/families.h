// SPDX-License-Identifier: Apache-2.0
//
// The families of the count backend. None touches the data of a tensor.
#pragma once

#include <initializer_list>
#include <memory>

#include "backend/backend.h"

namespace zaya::count {

// Adds to the totals of a backend; base of its families.
class Counter {
 protected:
  explicit Counter(WorkCount& count) : count_(count) {}

  // A product of [m, k] and [k, n].
  void product(Index m, Index n, Index k) {
    count_.product_flops +=
        2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  void flops(double flops) { count_.product_flops += flops; }
  // Tensors read or written once; one that is both is named twice. Absent ones count nothing.
  void moves(std::initializer_list<ConstTensor> tensors) {
    for (const ConstTensor& x : tensors) {
      if (!x.is_none()) count_.bytes += static_cast<double>(x.num_bytes());
    }
  }
  // Rows of the width and dtype of `like`, each read or written once.
  void moves_rows(Index rows, const ConstTensor& like) {
    count_.bytes += static_cast<double>(rows * like.columns() * size_of(like.dtype()));
  }

 private:
  WorkCount& count_;
};

std::unique_ptr<GemmKernels> make_gemm(WorkCount& count);
std::unique_ptr<NormKernels> make_norm(WorkCount& count);
std::unique_ptr<ResidualKernels> make_residual(WorkCount& count);
std::unique_ptr<CcaKernels> make_cca(WorkCount& count);
std::unique_ptr<AttentionKernels> make_attention(WorkCount& count);
std::unique_ptr<RouterKernels> make_router(WorkCount& count);
std::unique_ptr<ExpertKernels> make_experts(WorkCount& count);
std::unique_ptr<LossKernels> make_loss(WorkCount& count);
std::unique_ptr<OptimKernels> make_optim(WorkCount& count);
std::unique_ptr<MoveKernels> make_move(WorkCount& count);

}  // namespace zaya::count
