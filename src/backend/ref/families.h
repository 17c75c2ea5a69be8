// SPDX-License-Identifier: Apache-2.0
//
// How each family of the reference backend is made. Defined for (S, T) = (float, float),
// (float, bf16), (double, double) and (complex, complex).
#pragma once

#include <memory>

#include "backend/backend.h"

namespace zaya::ref {

template <class S, class T>
std::unique_ptr<GemmKernels> make_gemm();
template <class S, class T>
std::unique_ptr<NormKernels> make_norm();
template <class S, class T>
std::unique_ptr<ResidualKernels> make_residual();
template <class S, class T>
std::unique_ptr<CcaKernels> make_cca();
template <class S, class T>
std::unique_ptr<AttentionKernels> make_attention();
template <class S, class T>
std::unique_ptr<RouterKernels> make_router();
template <class S, class T>
std::unique_ptr<ExpertKernels> make_experts();
template <class S, class T>
std::unique_ptr<LossKernels> make_loss();
template <class S, class T>
std::unique_ptr<OptimKernels> make_optim();
template <class S, class T>
std::unique_ptr<MoveKernels> make_move();

}  // namespace zaya::ref

// Instantiates make_FAMILY for all pairs of types.
#define ZAYA_REF_FAMILY(Kernels, make)                      \
  template std::unique_ptr<Kernels> make<float, float>();   \
  template std::unique_ptr<Kernels> make<float, bf16>();    \
  template std::unique_ptr<Kernels> make<double, double>(); \
  template std::unique_ptr<Kernels> make<std::complex<double>, std::complex<double>>();
