// SPDX-License-Identifier: Apache-2.0
#include "backend/cca.h"

#include <cmath>

#include "backend/ref/families.h"
#include "backend/ref/scalar.h"

namespace zaya::ref {

namespace {

// Extents of a convolution.
struct ConvolveSizes {
  explicit ConvolveSizes(const ConvolveArgs& args)
      : heads(args.heads),
        width(args.qk0.dim(1)),
        channels(width / heads),
        k0(args.w0.dim(2)),
        k1(args.w1.dim(2)) {}

  Index heads, width, channels, k0, k1;
};

template <class S, class T>
class RefCca final : public CcaKernels {
 public:
  void convolve_forward(const ConvolveArgs& args, Tensor z) noexcept override {
    const ConvolveSizes n(args);
    const auto w1 = args.w1.as<T, 3>();
    const auto b1 = args.b1.as<S, 1>();
    const auto zs = z.as<T, 2>();
    for (const Segment& segment : args.segments) {
      const std::vector<A> u = depthwise(args, segment);
      for (Index t = segment.begin; t < segment.end; ++t) {
        for (Index o = 0; o < n.width; ++o) {
          const Index head_begin = o / n.channels * n.channels;
          A sum = wide(b1[o]);
          for (Index j = 0; j < n.k1; ++j) {
            // Row 0 of u is time begin - (k1-1).
            const A* row = &u[(t - segment.begin + j) * n.width + head_begin];
            for (Index i = 0; i < n.channels; ++i) sum += wide(w1[o][i][j]) * row[i];
          }
          put(zs[t][o], sum);
        }
      }
    }
  }

  void convolve_backward(const ConvolveArgs& args, ConstTensor dz, Tensor dqk0,
                         const ConvolveGradients& d) noexcept override {
    const ConvolveSizes n(args);
    Sums<S> dw0(d.w0.count()), db0(n.width), dw1(d.w1.count()), db1(n.width);
    for (const Segment& segment : args.segments) {
      const std::vector<A> du = grouped_backward(args, segment, dz, dw1, db1);
      depthwise_backward(args, segment, du, dqk0, dw0, db0);
    }
    dw0.add_to(d.w0);
    db0.add_to(d.b0);
    dw1.add_to(d.w1);
    db1.add_to(d.b1);
  }

  void mix_forward(const QkMixArgs& args, Tensor q, Tensor k, Tensor norm) noexcept override {
    const auto qs = q.as<T, 3>(), ks = k.as<T, 3>();
    const auto norms = norm.as<S, 2>();
    const Index channels = qs.dim(2);
    for (Index t = 0; t < qs.dim(0); ++t) {
      const std::vector<A> heads = mixed(args, t, channels);
      for (Index h = 0; h < args.query_heads + args.key_heads; ++h) {
        const A* head = &heads[h * channels];
        const A length = analytic::sqrt(squares(head, channels));
        put(norms[t][h], length);
        A factor = root(channels) / clamped(length);
        const Index g = h - args.query_heads;
        if (g >= 0) factor *= wide(args.temp.as<S, 1>()[g]);
        std::vector<A> row(head, head + channels);
        for (A& x : row) x *= factor;
        rotate(args, t, 1, row);
        const auto to = g < 0 ? qs[t][h] : ks[t][g];
        for (Index c = 0; c < channels; ++c) put(to[c], row[c]);
      }
    }
  }

  void mix_backward(const QkMixArgs& args, ConstTensor norm, ConstTensor dq, ConstTensor dk,
                    Tensor dz, Tensor dqk0, Tensor dtemp) noexcept override {
    const auto dqs = dq.as<T, 3>(), dks = dk.as<T, 3>();
    const Index channels = dqs.dim(2);
    Sums<S> dtemps(args.key_heads);
    for (Index t = 0; t < dqs.dim(0); ++t) {
      std::vector<A> dheads;  // gradient of z plus means, [N, C]
      const std::vector<A> heads = mixed(args, t, channels);
      for (Index h = 0; h < args.query_heads + args.key_heads; ++h) {
        const Index g = h - args.query_heads;
        const auto from = g < 0 ? dqs[t][h] : dks[t][g];
        std::vector<A> row(channels);
        for (Index c = 0; c < channels; ++c) row[c] = wide(from[c]);
        rotate(args, t, -1, row);
        const A* head = &heads[h * channels];
        const A length = wide(norm.as<S, 2>()[t][h]);
        if (g >= 0) {
          dtemps[g] += root(channels) / clamped(length) * dot(head, row);
          for (A& x : row) x *= wide(args.temp.as<S, 1>()[g]);
        }
        normalize_backward(head, length, row);
        dheads.insert(dheads.end(), row.begin(), row.end());
      }
      means_backward(args, dheads, dz.as<T, 2>()[t], dqk0.as<T, 2>()[t]);
    }
    dtemps.add_to(dtemp);
  }

  void values_forward(ConstTensor vcd, ConstTensor bias_d, ConstTensor history,
                      std::span<const Segment> segments, Tensor v) noexcept override {
    const auto from = vcd.as<T, 2>();
    const auto to = v.as<T, 2>();
    const Index half = to.dim(1) / 2;
    for (const Segment& segment : segments) {
      for (Index t = segment.begin; t < segment.end; ++t) {
        for (Index c = 0; c < half; ++c) to[t][c] = from[t][c];
        for (Index c = half; c < 2 * half; ++c) {
          if (t > segment.begin) {
            to[t][c] = from[t - 1][c];
          } else if (segment.history >= 0) {
            to[t][c] = history.as<T, 2>()[segment.history][c - half];
          } else {
            put(to[t][c], bias_d.is_none() ? A(0) : wide(bias_d.as<S, 1>()[c - half]));
          }
        }
      }
    }
  }

  void values_backward(ConstTensor dv, std::span<const Segment> segments, Tensor dvcd,
                       Tensor dbias_d) noexcept override {
    const auto from = dv.as<T, 2>();
    const auto to = dvcd.as<T, 2>();
    const Index half = to.dim(1) / 2;
    Sums<S> dbias(half);
    for (const Segment& segment : segments) {
      for (Index t = segment.begin; t < segment.end; ++t) {
        for (Index c = 0; c < half; ++c) {
          to[t][c] = from[t][c];
          put(to[t][half + c], t + 1 < segment.end ? wide(from[t + 1][half + c]) : A(0));
          if (t == segment.begin) dbias[c] += wide(from[t][half + c]);
        }
      }
    }
    if (!dbias_d.is_none()) dbias.add_to(dbias_d);
  }

 private:
  using A = Wide<S>;

  static double root(Index channels) { return std::sqrt(static_cast<double>(channels)); }

  static A squares(const A* head, Index channels) {
    A sum = 0;
    for (Index c = 0; c < channels; ++c) sum += head[c] * head[c];
    return sum;
  }

  static A dot(const A* head, const std::vector<A>& row) {
    A sum = 0;
    for (std::size_t c = 0; c < row.size(); ++c) sum += head[c] * row[c];
    return sum;
  }

  static bool is_clamped(A length) { return analytic::real(length) < epsilon_of(dtype_of<T>); }
  static A clamped(A length) { return is_clamped(length) ? A(epsilon_of(dtype_of<T>)) : length; }

  // qk0[t, c], or what stands there before the segment.
  static A column(const ConvolveArgs& args, const Segment& segment, Index t, Index c) {
    if (t >= segment.begin) return wide(args.qk0.as<T, 2>()[t][c]);
    if (segment.history < 0) return A(0);
    const auto columns = args.history.as<T, 3>()[segment.history];
    return wide(columns[columns.dim(0) - (segment.begin - t)][c]);
  }

  // u of a segment at times begin - (k1-1) .. end - 1: [count + k1 - 1, W].
  static std::vector<A> depthwise(const ConvolveArgs& args, const Segment& segment) {
    const ConvolveSizes n(args);
    const auto w0 = args.w0.as<S, 3>();
    const Index first = segment.begin - (n.k1 - 1);
    std::vector<A> u((segment.end - first) * n.width);
    for (Index t = first; t < segment.end; ++t) {
      for (Index c = 0; c < n.width; ++c) {
        A sum = wide(args.b0.as<S, 1>()[c]);
        for (Index j = 0; j < n.k0; ++j) {
          sum += wide(w0[c][0][j]) * column(args, segment, t - (n.k0 - 1) + j, c);
        }
        u[(t - first) * n.width + c] = sum;
      }
    }
    return u;
  }

  // Returns du with the extents of u.
  static std::vector<A> grouped_backward(const ConvolveArgs& args, const Segment& segment,
                                         ConstTensor dz, Sums<S>& dw1, Sums<S>& db1) {
    const ConvolveSizes n(args);
    const auto w1 = args.w1.as<T, 3>();
    const std::vector<A> u = depthwise(args, segment);
    std::vector<A> du(u.size());
    for (Index t = segment.begin; t < segment.end; ++t) {
      for (Index o = 0; o < n.width; ++o) {
        const A g = wide(dz.as<T, 2>()[t][o]);
        db1[o] += g;
        for (Index j = 0; j < n.k1; ++j) {
          const Index row = (t - segment.begin + j) * n.width + o / n.channels * n.channels;
          for (Index i = 0; i < n.channels; ++i) {
            du[row + i] += g * wide(w1[o][i][j]);
            dw1[(o * n.channels + i) * n.k1 + j] += g * u[row + i];
          }
        }
      }
    }
    return du;
  }

  static void depthwise_backward(const ConvolveArgs& args, const Segment& segment,
                                 const std::vector<A>& du, Tensor dqk0, Sums<S>& dw0,
                                 Sums<S>& db0) {
    const ConvolveSizes n(args);
    const auto w0 = args.w0.as<S, 3>();
    const auto dqk = dqk0.as<T, 2>();
    const Index first = segment.begin - (n.k1 - 1);
    std::vector<A> dcolumns((segment.end - segment.begin) * n.width);
    for (Index t = first; t < segment.end; ++t) {
      for (Index c = 0; c < n.width; ++c) {
        const A g = du[(t - first) * n.width + c];
        db0[c] += g;
        for (Index j = 0; j < n.k0; ++j) {
          const Index from = t - (n.k0 - 1) + j;
          if (from < segment.begin) continue;
          dw0[c * n.k0 + j] += g * column(args, segment, from, c);
          dcolumns[(from - segment.begin) * n.width + c] += g * wide(w0[c][0][j]);
        }
      }
    }
    for (Index t = segment.begin; t < segment.end; ++t) {
      for (Index c = 0; c < n.width; ++c) {
        add(dqk[t][c], dcolumns[(t - segment.begin) * n.width + c]);
      }
    }
  }

  // z plus the means, for the heads of one token: [N, C].
  static std::vector<A> mixed(const QkMixArgs& args, Index t, Index channels) {
    const auto z = args.z.as<T, 2>()[t], qk0 = args.qk0.as<T, 2>()[t];
    const Index group = args.query_heads / args.key_heads, keys = args.query_heads * channels;
    std::vector<A> heads(z.dim(0));
    for (Index i = 0; i < z.dim(0); ++i) heads[i] = wide(z[i]);
    for (Index h = 0; h < args.query_heads; ++h) {
      const Index g = h / group;
      for (Index c = 0; c < channels; ++c) {
        const A mean = 0.5 * (wide(qk0[h * channels + c]) + wide(qk0[keys + g * channels + c]));
        heads[h * channels + c] += mean;
        heads[keys + g * channels + c] += mean / static_cast<double>(group);
      }
    }
    return heads;
  }

  // Turns the first channels of a head by the token's angles, or back (direction -1).
  static void rotate(const QkMixArgs& args, Index t, double direction, std::vector<A>& head) {
    const Index position = args.positions.as<std::int32_t, 1>()[t];
    const auto rotary = args.rotary.as<S, 3>()[position];
    const Index half = rotary.dim(1);
    for (Index j = 0; j < half; ++j) {
      const A cosine = wide(rotary[0][j]), sine = direction * wide(rotary[1][j]);
      const A a = head[j], b = head[j + half];
      head[j] = a * cosine - b * sine;
      head[j + half] = b * cosine + a * sine;
    }
  }

  // In `row` the gradient of head * sqrt(C) / max(length, eps) becomes that of head.
  static void normalize_backward(const A* head, A length, std::vector<A>& row) {
    const A factor = root(static_cast<Index>(row.size())) / clamped(length);
    const A along = is_clamped(length) ? A(0) : dot(head, row) / (length * length);
    for (std::size_t c = 0; c < row.size(); ++c) row[c] = factor * (row[c] - along * head[c]);
  }

  // dz of one token, and its dqk0 through the means.
  static void means_backward(const QkMixArgs& args, const std::vector<A>& dheads, View<T, 1> dz,
                             View<T, 1> dqk0) {
    const Index channels = dz.dim(0) / (args.query_heads + args.key_heads);
    const Index group = args.query_heads / args.key_heads, keys = args.query_heads * channels;
    for (Index i = 0; i < dz.dim(0); ++i) put(dz[i], dheads[i]);
    for (Index g = 0; g < args.key_heads; ++g) {
      for (Index c = 0; c < channels; ++c) {
        const A through_key = dheads[keys + g * channels + c] / static_cast<double>(group);
        A sum = 0;
        for (Index h = g * group; h < (g + 1) * group; ++h) {
          const A half = 0.5 * (dheads[h * channels + c] + through_key);
          put(dqk0[h * channels + c], half);
          sum += half;
        }
        put(dqk0[keys + g * channels + c], sum);
      }
    }
  }
};

}  // namespace

template <class S, class T>
std::unique_ptr<CcaKernels> make_cca() {
  return std::make_unique<RefCca<S, T>>();
}
ZAYA_REF_FAMILY(CcaKernels, make_cca)

}  // namespace zaya::ref
