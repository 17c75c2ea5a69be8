// SPDX-License-Identifier: Apache-2.0
#include "backend/attention.h"

#include <algorithm>

#include "backend/count/families.h"

namespace zaya::count {

namespace {

// Pairs of a query and a key it sees, as if no key were hidden.
double visible_pairs(const AttentionArgs& args) {
  Index pairs = 0;
  for (const AttentionSpan& span : args.spans) {
    for (Index i = span.q_begin; i < span.q_end; ++i) {
      const Index keys = std::max<Index>(0, span.k_end - span.k_begin - (span.q_end - 1 - i));
      pairs += args.window > 0 ? std::min(keys, args.window) : keys;
    }
  }
  return static_cast<double>(pairs);
}

// Multiply-adds of one product over all pairs: scores, or the sum of values.
double multiply_adds(const AttentionArgs& args) {
  return visible_pairs(args) * static_cast<double>(args.q.dim(1) * args.q.dim(2));
}

class CountAttention final : public AttentionKernels, private Counter {
 public:
  explicit CountAttention(WorkCount& count) : Counter(count) {}

  void forward(const AttentionArgs& args, Tensor, Tensor) noexcept override {
    flops(2 * 2 * multiply_adds(args));
  }
  // The gradient of probabilities, and dq, dk, dv. Scores are computed again, which is not counted.
  void backward(const AttentionArgs& args, ConstTensor, ConstTensor, ConstTensor, Tensor, Tensor,
                Tensor, Tensor) noexcept override {
    flops(4 * 2 * multiply_adds(args));
  }
};

}  // namespace

std::unique_ptr<AttentionKernels> make_attention(WorkCount& count) {
  return std::make_unique<CountAttention>(count);
}

}  // namespace zaya::count
