// SPDX-License-Identifier: Apache-2.0
//
// The prologue of compressed convolutional attention on the CPU: convolutions in convolve.cc,
// means, norms, rotation and delayed values in cca_mix.cc.
#pragma once

#include <utility>

#include "backend/cca.h"
#include "backend/cpu/context.h"

namespace zaya {

class CpuCca final : public CcaKernels {
 public:
  explicit CpuCca(CpuContextPtr context) : context_(std::move(context)) {}

  // convolve.cc
  void convolve_forward(const ConvolveArgs& args, Tensor z) noexcept override;
  void convolve_backward(const ConvolveArgs& args, ConstTensor dz, Tensor dqk0,
                         const ConvolveGradients& d) noexcept override;

  // cca_mix.cc
  void mix_forward(const QkMixArgs& args, Tensor q, Tensor k, Tensor norm) noexcept override;
  void mix_backward(const QkMixArgs& args, ConstTensor norm, ConstTensor dq, ConstTensor dk,
                    Tensor dz, Tensor dqk0, Tensor dtemp) noexcept override;
  void values_forward(ConstTensor vcd, ConstTensor bias_d, ConstTensor history,
                      std::span<const Segment> segments, Tensor v) noexcept override;
  void values_backward(ConstTensor dv, std::span<const Segment> segments, Tensor dvcd,
                       Tensor dbias_d) noexcept override;

 private:
  CpuContextPtr context_;
};

}  // namespace zaya
