// SPDX-License-Identifier: Apache-2.0
#include "backend/optim.h"

#include "backend/ref/families.h"
#include "backend/ref/scalar.h"

namespace zaya::ref {

namespace {

template <class S, class T>
class RefOptim final : public OptimKernels {
 public:
  void adamw(const AdamWArgs& args) noexcept override {
    const auto value = args.value.as<S, 1>();
    const auto first = args.first_moment.as<S, 1>(), second = args.second_moment.as<S, 1>();
    const auto grad = args.grad.as<S, 1>();
    const double keep = 1 - args.learning_rate * args.weight_decay;
    for (Index i = 0; i < value.dim(0); ++i) {
      const A g = args.grad_scale * wide(grad[i]);
      const A m = args.beta1 * wide(first[i]) + (1 - args.beta1) * g;
      const A v = args.beta2 * wide(second[i]) + (1 - args.beta2) * g * g;
      put(first[i], m);
      put(second[i], v);
      const A root = analytic::sqrt(v / args.correction2);
      const A step = m / args.correction1 / (root + args.eps);
      put(value[i], keep * wide(value[i]) - args.learning_rate * step);
    }
    write_copy(args.value, args.copy);
  }

  void momentum(ConstTensor grad, double scale, double mu, bool nesterov, Tensor buffer,
                Tensor out) noexcept override {
    with_dtype<S, T>(out.dtype(), [&](auto type) {
      const auto grads = grad.as<S, 1>();
      const auto buffers = buffer.as<S, 1>();
      const auto outs = out.as<decltype(type), 1>();
      for (Index i = 0; i < grads.dim(0); ++i) {
        const A g = scale * wide(grads[i]);
        const A b = mu * wide(buffers[i]) + g;
        put(buffers[i], b);
        put(outs[i], nesterov ? g + mu * b : b);
      }
    });
  }

  void decayed_add(Tensor value, ConstTensor update, double decay, double step,
                   Tensor copy) noexcept override {
    with_dtype<S, T>(update.dtype(), [&](auto type) {
      const auto values = value.as<S, 1>();
      const auto updates = update.as<decltype(type), 1>();
      for (Index i = 0; i < values.dim(0); ++i) {
        put(values[i], (1 - decay) * wide(values[i]) - step * wide(updates[i]));
      }
    });
    write_copy(value, copy);
  }

  double sum_squares(ConstTensor x) noexcept override {
    double sum = 0;
    with_dtype<S, T>(x.dtype(), [&](auto type) {
      for (const auto& element : x.as<decltype(type), 1>()) {
        const double value = analytic::real(wide(element));
        sum += value * value;
      }
    });
    return sum;
  }

 private:
  using A = Wide<S>;

  static void write_copy(Tensor value, Tensor copy) {
    if (copy.is_none()) return;
    const auto values = value.as<S, 1>();
    const auto copies = copy.as<T, 1>();
    for (Index i = 0; i < values.dim(0); ++i) put(copies[i], wide(values[i]));
  }
};

}  // namespace

template <class S, class T>
std::unique_ptr<OptimKernels> make_optim() {
  return std::make_unique<RefOptim<S, T>>();
}
ZAYA_REF_FAMILY(OptimKernels, make_optim)

}  // namespace zaya::ref
