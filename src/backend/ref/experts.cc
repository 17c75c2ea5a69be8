// SPDX-License-Identifier: Apache-2.0
#include "backend/experts.h"

#include <algorithm>

#include "backend/ref/families.h"
#include "backend/ref/scalar.h"

namespace zaya::ref {

namespace {

View<const std::int32_t, 1> ints(ConstTensor x) { return x.as<std::int32_t, 1>(); }

Index used_rows(const RowPlan& plan) { return ints(plan.offsets)[plan.offsets.dim(0) - 1]; }

// body(expert, row) for all rows of experts, padding included.
template <class Body>
void for_each_row(const RowPlan& plan, Body body) {
  const auto offsets = ints(plan.offsets);
  for (Index e = 0; e + 1 < offsets.dim(0); ++e) {
    for (Index r = offsets[e]; r < offsets[e + 1]; ++r) body(e, r);
  }
}

template <class S, class T>
class RefExperts final : public ExpertKernels {
 public:
  void dispatch(ConstTensor choice, Index num_experts, const RowPlan& plan) noexcept override {
    const auto choices = ints(choice);
    const auto row_of_token = plan.row_of_token.as<std::int32_t, 1>();
    const auto token_of_row = plan.token_of_row.as<std::int32_t, 1>();
    const auto offsets = plan.offsets.as<std::int32_t, 1>();
    const auto loads = plan.loads.as<std::int64_t, 1>();
    std::fill(loads.begin(), loads.end(), 0);
    for (const std::int32_t c : choices) ++loads[c];
    offsets[0] = 0;
    for (Index e = 0; e < num_experts; ++e) {
      const Index rows = (loads[e] + kRowPadding - 1) / kRowPadding * kRowPadding;
      offsets[e + 1] = static_cast<std::int32_t>(offsets[e] + rows);
    }
    std::fill(token_of_row.begin(), token_of_row.end(), -1);
    std::vector<std::int32_t> next(offsets.begin(), offsets.end());
    for (Index t = 0; t < choices.dim(0); ++t) {
      const bool is_skip = choices[t] == num_experts;
      row_of_token[t] = is_skip ? -1 : next[choices[t]]++;
      if (!is_skip) token_of_row[row_of_token[t]] = static_cast<std::int32_t>(t);
    }
  }

  void gather(ConstTensor x, const RowPlan& plan, Tensor rows) noexcept override {
    const auto xs = x.as<T, 2>();
    const auto token_of_row = ints(plan.token_of_row);
    const auto targets = rows.as<T, 2>();
    for (Index r = 0; r < used_rows(plan); ++r) {
      for (Index i = 0; i < xs.dim(1); ++i) {
        put(targets[r][i], token_of_row[r] < 0 ? A(0) : wide(xs[token_of_row[r]][i]));
      }
    }
  }

  void grouped_forward(ConstTensor x, ConstTensor w, const RowPlan& plan,
                       Tensor y) noexcept override {
    const auto xs = x.as<T, 2>();
    const auto ws = w.as<T, 3>();
    const auto ys = y.as<T, 2>();
    for_each_row(plan, [&](Index e, Index r) {
      for (Index o = 0; o < ws.dim(1); ++o) put(ys[r][o], dot(xs[r], ws[e][o]));
    });
  }

  void grouped_backward_input(ConstTensor dy, ConstTensor w, const RowPlan& plan,
                              Tensor dx) noexcept override {
    const auto dys = dy.as<T, 2>();
    const auto ws = w.as<T, 3>();
    const auto dxs = dx.as<T, 2>();
    std::vector<A> row(ws.dim(2));
    for_each_row(plan, [&](Index e, Index r) {
      std::fill(row.begin(), row.end(), A(0));
      for (Index o = 0; o < ws.dim(1); ++o) add_multiple(wide(dys[r][o]), ws[e][o], row);
      for (Index i = 0; i < ws.dim(2); ++i) put(dxs[r][i], row[i]);
    });
  }

  void grouped_backward_weight(ConstTensor dy, ConstTensor x, const RowPlan& plan,
                               Tensor dw) noexcept override {
    const auto dys = dy.as<T, 2>(), xs = x.as<T, 2>();
    const auto dws = dw.as<S, 3>();
    const auto offsets = ints(plan.offsets);
    std::vector<A> row(dws.dim(2));
    for (Index e = 0; e < dws.dim(0); ++e) {
      if (offsets[e] == offsets[e + 1]) continue;
      for (Index o = 0; o < dws.dim(1); ++o) {
        std::fill(row.begin(), row.end(), A(0));
        for (Index r = offsets[e]; r < offsets[e + 1]; ++r) {
          add_multiple(wide(dys[r][o]), xs[r], row);
        }
        for (Index i = 0; i < dws.dim(2); ++i) add(dws[e][o][i], row[i]);
      }
    }
  }

  void swiglu_forward(ConstTensor gu, const RowPlan& plan, Tensor a) noexcept override {
    const auto gus = gu.as<T, 2>();
    const auto as = a.as<T, 2>();
    const Index width = as.dim(1);
    for (Index r = 0; r < used_rows(plan); ++r) {
      for (Index i = 0; i < width; ++i) {
        const A gate = wide(gus[r][i]);
        put(as[r][i], gate * sigmoid(gate) * wide(gus[r][width + i]));
      }
    }
  }

  void swiglu_backward(ConstTensor gu, ConstTensor da, ConstTensor weight, const RowPlan& plan,
                       Tensor dgu, Tensor wa, Tensor dweight) noexcept override {
    const auto gus = gu.as<T, 2>(), das = da.as<T, 2>();
    const auto dgus = dgu.as<T, 2>(), was = wa.as<T, 2>();
    const auto dweights = dweight.as<S, 1>();
    const Index width = das.dim(1);
    for (Index r = 0; r < used_rows(plan); ++r) {
      const Index t = ints(plan.token_of_row)[r];
      if (t < 0) {
        for (Index i = 0; i < width; ++i) put(was[r][i], A(0));
        for (Index i = 0; i < 2 * width; ++i) put(dgus[r][i], A(0));
        continue;
      }
      const A factor = wide(weight.as<S, 1>()[t]);
      A dot_a = 0;
      for (Index i = 0; i < width; ++i) {
        const A gate = wide(gus[r][i]), up = wide(gus[r][width + i]), g = wide(das[r][i]);
        const A sigma = sigmoid(gate), silu = gate * sigma;
        dot_a += silu * up * g;
        put(was[r][i], factor * silu * up);
        put(dgus[r][i], factor * g * up * sigma * (1.0 + gate * (1.0 - sigma)));
        put(dgus[r][width + i], factor * g * silu);
      }
      put(dweights[t], dot_a);
    }
  }

  void combine_forward(ConstTensor y, ConstTensor x, ConstTensor weight, const RowPlan& plan,
                       bool skip_is_identity, Tensor out) noexcept override {
    const auto ys = y.as<T, 2>(), xs = x.as<T, 2>();
    const auto outs = out.as<T, 2>();
    for (Index t = 0; t < outs.dim(0); ++t) {
      const Index r = ints(plan.row_of_token)[t];
      if (r < 0 && !skip_is_identity) {
        for (T& element : outs[t]) put(element, A(0));
        continue;
      }
      const A factor = wide(weight.as<S, 1>()[t]);
      const auto from = r < 0 ? xs[t] : ys[r];
      for (Index i = 0; i < outs.dim(1); ++i) put(outs[t][i], factor * wide(from[i]));
    }
  }

  void combine_backward(ConstTensor drows, ConstTensor dout, ConstTensor x, ConstTensor weight,
                        const RowPlan& plan, bool skip_is_identity, Tensor dx,
                        Tensor dweight) noexcept override {
    const auto drs = drows.as<T, 2>(), douts = dout.as<T, 2>(), xs = x.as<T, 2>();
    const auto dxs = dx.as<T, 2>();
    const auto dweights = dweight.as<S, 1>();
    for (Index t = 0; t < dxs.dim(0); ++t) {
      const Index r = ints(plan.row_of_token)[t];
      if (r >= 0) {
        for (Index i = 0; i < dxs.dim(1); ++i) dxs[t][i] = drs[r][i];
        continue;
      }
      const A factor = wide(weight.as<S, 1>()[t]);
      for (Index i = 0; i < dxs.dim(1); ++i) {
        put(dxs[t][i], skip_is_identity ? factor * wide(douts[t][i]) : A(0));
      }
      put(dweights[t], skip_is_identity ? dot(xs[t], douts[t]) : A(0));
    }
  }

 private:
  using A = Wide<S>;

  static A dot(View<const T, 1> a, View<const T, 1> b) {
    const T *pa = a.data(), *pb = b.data();
    A sum = 0;
    for (Index i = 0; i < a.dim(0); ++i) sum += wide(pa[i]) * wide(pb[i]);
    return sum;
  }

  static void add_multiple(A factor, View<const T, 1> from, std::vector<A>& to) {
    const T* p = from.data();
    for (Index i = 0; i < from.dim(0); ++i) to[i] += factor * wide(p[i]);
  }

  static A sigmoid(A x) { return 1.0 / (1.0 + analytic::exp(-x)); }
};

}  // namespace

template <class S, class T>
std::unique_ptr<ExpertKernels> make_experts() {
  return std::make_unique<RefExperts<S, T>>();
}
ZAYA_REF_FAMILY(ExpertKernels, make_experts)

}  // namespace zaya::ref
