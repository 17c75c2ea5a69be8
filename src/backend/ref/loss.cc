// SPDX-License-Identifier: Apache-2.0
#include "backend/loss.h"

#include <algorithm>

#include "backend/ref/families.h"
#include "backend/ref/scalar.h"

namespace zaya::ref {

namespace {

template <class S, class T>
class RefLoss final : public LossKernels {
 public:
  double cross_entropy(const LossArgs& args, const LossGradients* d,
                       Tensor logprobs) noexcept override {
    const Index num_tokens = args.x.dim(0), chunk = args.scratch.dim(0);
    const auto targets = args.targets.as<std::int32_t, 1>();
    const auto logits = args.scratch.as<S, 2>();
    A loss = 0;
    for (Index begin = 0; begin < num_tokens; begin += chunk) {
      const Index end = std::min(num_tokens, begin + chunk);
      for (Index t = begin; t < end; ++t) {
        const auto row = logits[t - begin];
        A logprob = 0;
        if (targets[t] < 0) {
          std::fill(row.begin(), row.end(), S(0));
        } else {
          write_logits(args, t, row);
          logprob = to_gradient(row, targets[t], d);
        }
        loss -= logprob;
        if (!logprobs.is_none()) put(logprobs.as<S, 1>()[t], logprob);
      }
      if (d != nullptr) backward(args, begin, end, *d);
    }
    return analytic::real(loss);
  }

 private:
  using A = Wide<S>;

  static void write_logits(const LossArgs& args, Index t, View<S, 1> logits) {
    const auto x = args.x.as<T, 2>()[t];
    const auto w = args.w.as<T, 2>();
    for (Index v = 0; v < w.dim(0); ++v) {
      const T *px = x.data(), *pw = w[v].data();
      A sum = args.bias.is_none() ? A(0) : wide(args.bias.as<S, 1>()[v]);
      for (Index i = 0; i < x.dim(0); ++i) sum += wide(px[i]) * wide(pw[i]);
      put(logits[v], sum);
    }
  }

  // Returns log p(target); with `d` turns the logits of a row into their gradient.
  static A to_gradient(View<S, 1> row, Index target, const LossGradients* d) {
    A most = wide(row[0]), sum = 0;
    for (const S& l : row) most = analytic::max(most, wide(l));
    for (const S& l : row) sum += analytic::exp(wide(l) - most);
    const A lse = most + analytic::log(sum), logprob = wide(row[target]) - lse;
    if (d == nullptr) return logprob;
    for (Index v = 0; v < row.dim(0); ++v) {
      const double one_hot = v == target ? 1 : 0;
      put(row[v], d->scale * (analytic::exp(wide(row[v]) - lse) - one_hot));
    }
    return logprob;
  }

  // Scratch holds the gradients of the logits of tokens [begin, end).
  static void backward(const LossArgs& args, Index begin, Index end, const LossGradients& d) {
    const auto xs = args.x.as<T, 2>(), ws = args.w.as<T, 2>();
    const auto dlogits = args.scratch.as<S, 2>();
    const auto dxs = d.dx.as<T, 2>();
    const auto dws = d.dw.as<S, 2>();
    const Index width = xs.dim(1);
    std::vector<A> row(width);
    for (Index t = begin; t < end; ++t) {
      std::fill(row.begin(), row.end(), A(0));
      for (Index v = 0; v < ws.dim(0); ++v) {
        add_multiple(wide(dlogits[t - begin][v]), ws[v], row);
      }
      for (Index i = 0; i < width; ++i) put(dxs[t][i], row[i]);
    }
    for (Index v = 0; v < ws.dim(0); ++v) {
      std::fill(row.begin(), row.end(), A(0));
      A bias_sum = 0;
      for (Index t = begin; t < end; ++t) {
        const A factor = wide(dlogits[t - begin][v]);
        bias_sum += factor;
        add_multiple(factor, xs[t], row);
      }
      for (Index i = 0; i < width; ++i) add(dws[v][i], row[i]);
      if (!d.dbias.is_none()) add(d.dbias.as<S, 1>()[v], bias_sum);
    }
  }

  static void add_multiple(A factor, View<const T, 1> from, std::vector<A>& to) {
    const T* p = from.data();
    for (Index i = 0; i < from.dim(0); ++i) to[i] += factor * wide(p[i]);
  }
};

}  // namespace

template <class S, class T>
std::unique_ptr<LossKernels> make_loss() {
  return std::make_unique<RefLoss<S, T>>();
}
ZAYA_REF_FAMILY(LossKernels, make_loss)

}  // namespace zaya::ref
