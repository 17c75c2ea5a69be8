// SPDX-License-Identifier: Apache-2.0
#include "backend/attention.h"

#include <algorithm>
#include <cmath>

#include "backend/ref/families.h"
#include "backend/ref/scalar.h"

namespace zaya::ref {

namespace {

// Keys [begin, end) that query i of a span may see, hidden ones not yet taken out.
struct KeyRange {
  Index begin = 0, end = 0;
};

KeyRange keys_of(const AttentionSpan& span, Index query, Index window) {
  const Index end = span.k_end - (span.q_end - 1 - query);
  const Index begin = window > 0 ? std::max(span.k_begin, end - window) : span.k_begin;
  return {begin, std::max(begin, end)};
}

template <class S, class T>
class RefAttention final : public AttentionKernels {
 public:
  void forward(const AttentionArgs& args, Tensor out, Tensor lse) noexcept override {
    const auto outs = out.as<T, 3>();
    const auto lses = lse.as<S, 2>();
    for (T& element : out.as<T, 1>()) put(element, A(0));
    for (Index i = 0; i < lses.dim(0); ++i) std::fill(lses[i].begin(), lses[i].end(), S(0));
    const auto forward_row = [&](const AttentionSpan& span, Index i, Index h) {
      attend(args, keys_of(span, i, args.window), i, h, outs[i][h], lses[i][h]);
    };
    for_each_row(args, forward_row);
  }

  void backward(const AttentionArgs& args, ConstTensor out, ConstTensor lse, ConstTensor dout,
                Tensor delta, Tensor dq, Tensor dk, Tensor dv) noexcept override {
    const auto dqs = dq.as<T, 3>();
    const auto deltas = delta.as<S, 2>();
    std::vector<A> dk_sums(dk.count()), dv_sums(dv.count());
    for (T& element : dq.as<T, 1>()) put(element, A(0));
    const auto backward_row = [&](const AttentionSpan& span, Index i, Index h) {
      const A row_delta = dot(out.as<T, 3>()[i][h], dout.as<T, 3>()[i][h]);
      put(deltas[i][h], row_delta);
      const KeyRange keys = keys_of(span, i, args.window);
      attend_backward(args, keys, i, h, wide(lse.as<S, 2>()[i][h]), row_delta,
                      dout.as<T, 3>()[i][h], dqs[i][h], dk_sums, dv_sums);
    };
    for_each_row(args, backward_row);
    const auto dks = dk.as<T, 1>(), dvs = dv.as<T, 1>();
    for (Index i = 0; i < dks.dim(0); ++i) put(dks[i], dk_sums[i]);
    for (Index i = 0; i < dvs.dim(0); ++i) put(dvs[i], dv_sums[i]);
  }

 private:
  using A = Wide<S>;

  static A dot(View<const T, 1> a, View<const T, 1> b) {
    A sum = 0;
    for (Index c = 0; c < a.dim(0); ++c) sum += wide(a[c]) * wide(b[c]);
    return sum;
  }

  // body(span, query, head) for all queries in spans.
  template <class Body>
  static void for_each_row(const AttentionArgs& args, Body body) {
    for (const AttentionSpan& span : args.spans) {
      for (Index i = span.q_begin; i < span.q_end; ++i) {
        for (Index h = 0; h < args.q.dim(1); ++h) body(span, i, h);
      }
    }
  }

  static bool is_hidden(const AttentionArgs& args, Index key) {
    return !args.hidden_keys.is_none() && args.hidden_keys.as<std::uint8_t, 1>()[key] != 0;
  }

  static Index key_head(const AttentionArgs& args, Index h) {
    return h / (args.q.dim(1) / args.k.dim(1));
  }

  static A score(const AttentionArgs& args, Index i, Index h, Index key) {
    const double scale = 1 / std::sqrt(static_cast<double>(args.q.dim(2)));
    const auto k = args.k.as<T, 3>()[key][key_head(args, h)];
    return dot(args.q.as<T, 3>()[i][h], k) * scale;
  }

  static void attend(const AttentionArgs& args, KeyRange keys, Index i, Index h, View<T, 1> out,
                     S& lse) {
    std::vector<A> scores;
    std::vector<Index> seen;
    for (Index j = keys.begin; j < keys.end; ++j) {
      if (is_hidden(args, j)) continue;
      seen.push_back(j);
      scores.push_back(score(args, i, h, j));
    }
    if (seen.empty()) return;
    A most = scores[0], sum = 0;
    for (const A& s : scores) most = analytic::max(most, s);
    for (const A& s : scores) sum += analytic::exp(s - most);
    std::vector<A> row(out.dim(0));
    for (std::size_t n = 0; n < seen.size(); ++n) {
      const A p = analytic::exp(scores[n] - most) / sum;
      const auto v = args.v.as<T, 3>()[seen[n]][key_head(args, h)];
      for (Index c = 0; c < out.dim(0); ++c) row[c] += p * wide(v[c]);
    }
    for (Index c = 0; c < out.dim(0); ++c) put(out[c], row[c]);
    put(lse, most + analytic::log(sum));
  }

  // dk and dv are the sums of all keys and key heads.
  static void attend_backward(const AttentionArgs& args, KeyRange keys, Index i, Index h, A lse,
                              A delta, View<const T, 1> dout, View<T, 1> dq, std::vector<A>& dk,
                              std::vector<A>& dv) {
    const Index channels = dq.dim(0), g = key_head(args, h);
    const double scale = 1 / std::sqrt(static_cast<double>(channels));
    const auto q = args.q.as<T, 3>()[i][h];
    std::vector<A> row(channels);
    for (Index j = keys.begin; j < keys.end; ++j) {
      if (is_hidden(args, j)) continue;
      const auto k = args.k.as<T, 3>()[j][g], v = args.v.as<T, 3>()[j][g];
      const A p = analytic::exp(score(args, i, h, j) - lse);
      const A ds = p * (dot(dout, v) - delta) * scale;
      const Index first = (j * args.k.dim(1) + g) * channels;
      for (Index c = 0; c < channels; ++c) {
        row[c] += ds * wide(k[c]);
        dk[first + c] += ds * wide(q[c]);
        dv[first + c] += p * wide(dout[c]);
      }
    }
    for (Index c = 0; c < channels; ++c) put(dq[c], row[c]);
  }
};

}  // namespace

template <class S, class T>
std::unique_ptr<AttentionKernels> make_attention() {
  return std::make_unique<RefAttention<S, T>>();
}
ZAYA_REF_FAMILY(AttentionKernels, make_attention)

}  // namespace zaya::ref
