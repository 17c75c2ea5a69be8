// SPDX-License-Identifier: Apache-2.0
#include "backend/cca.h"

#include "backend/count/families.h"

namespace zaya::count {

namespace {

class CountCca final : public CcaKernels, private Counter {
 public:
  explicit CountCca(WorkCount& count) : Counter(count) {}

  // The grouped convolution is a product; the depthwise one is element-wise.
  void convolve_forward(const ConvolveArgs& args, Tensor z) noexcept override {
    product(z.dim(0), args.w1.dim(0), args.w1.dim(1) * args.w1.dim(2));
    moves({args.qk0, args.w0, args.b0, args.b1, z});
  }
  void convolve_backward(const ConvolveArgs& args, ConstTensor dz, Tensor dqk0,
                         const ConvolveGradients& d) noexcept override {
    product(dz.dim(0), 2 * args.w1.dim(0), args.w1.dim(1) * args.w1.dim(2));
    moves({args.qk0, args.w0, dz, dqk0, dqk0, d.w0, d.w0, d.b0, d.b0, d.b1, d.b1});
  }
  void mix_forward(const QkMixArgs& args, Tensor q, Tensor k, Tensor norm) noexcept override {
    moves({args.z, args.qk0, args.temp, args.positions, q, k, norm});
  }
  void mix_backward(const QkMixArgs& args, ConstTensor norm, ConstTensor dq, ConstTensor dk,
                    Tensor dz, Tensor dqk0, Tensor dtemp) noexcept override {
    moves({args.z, args.qk0, args.temp, args.positions, norm, dq, dk, dz, dqk0, dtemp, dtemp});
  }
  void values_forward(ConstTensor vcd, ConstTensor bias_d, ConstTensor, std::span<const Segment>,
                      Tensor v) noexcept override {
    moves({vcd, bias_d, v});
  }
  void values_backward(ConstTensor dv, std::span<const Segment>, Tensor dvcd,
                       Tensor dbias_d) noexcept override {
    moves({dv, dvcd, dbias_d, dbias_d});
  }
};

}  // namespace

std::unique_ptr<CcaKernels> make_cca(WorkCount& count) { return std::make_unique<CountCca>(count); }

}  // namespace zaya::count
