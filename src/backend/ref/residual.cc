// SPDX-License-Identifier: Apache-2.0
#include "backend/residual.h"

#include "backend/ref/families.h"
#include "backend/ref/scalar.h"

namespace zaya::ref {

namespace {

template <class S, class T>
class RefResidual final : public ResidualKernels {
 public:
  void entry_forward(ConstTensor ids, ConstTensor table, ConstTensor b, ConstTensor s,
                     Tensor x) noexcept override {
    const auto id = ids.as<std::int32_t, 1>();
    const auto rows = table.as<T, 2>();
    const auto bs = b.as<S, 1>(), ss = s.as<S, 1>();
    const auto xs = x.as<S, 2>();
    for (Index t = 0; t < xs.dim(0); ++t) {
      for (Index i = 0; i < xs.dim(1); ++i) {
        put(xs[t][i], (wide(rows[id[t]][i]) + wide(bs[i])) * wide(ss[i]));
      }
    }
  }

  void entry_backward(ConstTensor ids, ConstTensor table, ConstTensor b, ConstTensor s,
                      ConstTensor dx, Index pad_id, Tensor dtable, Tensor db,
                      Tensor ds) noexcept override {
    const auto id = ids.as<std::int32_t, 1>();
    const auto rows = table.as<T, 2>();
    const auto bs = b.as<S, 1>(), ss = s.as<S, 1>();
    const auto dxs = dx.as<S, 2>();
    const auto drows = dtable.as<S, 2>();
    const Index width = dxs.dim(1);
    Sums<S> db_sums(width), ds_sums(width);
    for (Index t = 0; t < dxs.dim(0); ++t) {
      for (Index i = 0; i < width; ++i) {
        const A g = wide(dxs[t][i]);
        if (id[t] != pad_id) add(drows[id[t]][i], g * wide(ss[i]));
        db_sums[i] += g * wide(ss[i]);
        ds_sums[i] += g * (wide(rows[id[t]][i]) + wide(bs[i]));
      }
    }
    db_sums.add_to(db);
    ds_sums.add_to(ds);
  }

  void mix_forward(ConstTensor r, ConstTensor a, const MixVectors& p, Tensor y) noexcept override {
    const auto rs = r.as<S, 2>();
    const auto as = a.as<T, 2>();
    const auto s_r = p.s_r.as<S, 1>(), b_r = p.b_r.as<S, 1>();
    const auto s_a = p.s_a.as<S, 1>(), b_a = p.b_a.as<S, 1>();
    const auto ys = y.as<S, 2>();
    for (Index t = 0; t < ys.dim(0); ++t) {
      for (Index i = 0; i < ys.dim(1); ++i) {
        put(ys[t][i], (wide(rs[t][i]) + wide(b_r[i])) * wide(s_r[i]) +
                          (wide(as[t][i]) + wide(b_a[i])) * wide(s_a[i]));
      }
    }
  }

  void mix_backward(ConstTensor r, ConstTensor a, const MixVectors& p, Tensor dr, Tensor da,
                    const MixGradients& d) noexcept override {
    const auto rs = r.as<S, 2>();
    const auto as = a.as<T, 2>();
    const auto s_r = p.s_r.as<S, 1>(), b_r = p.b_r.as<S, 1>();
    const auto s_a = p.s_a.as<S, 1>(), b_a = p.b_a.as<S, 1>();
    const auto drs = dr.as<S, 2>();
    const auto das = da.as<T, 2>();
    const Index width = rs.dim(1);
    Sums<S> ds_r(width), db_r(width), ds_a(width), db_a(width);
    for (Index t = 0; t < rs.dim(0); ++t) {
      for (Index i = 0; i < width; ++i) {
        const A g = wide(drs[t][i]);
        ds_r[i] += g * (wide(rs[t][i]) + wide(b_r[i]));
        db_r[i] += g * wide(s_r[i]);
        ds_a[i] += g * (wide(as[t][i]) + wide(b_a[i]));
        db_a[i] += g * wide(s_a[i]);
        put(drs[t][i], g * wide(s_r[i]));
        put(das[t][i], g * wide(s_a[i]));
      }
    }
    ds_r.add_to(d.s_r);
    db_r.add_to(d.b_r);
    ds_a.add_to(d.s_a);
    db_a.add_to(d.b_a);
  }

 private:
  using A = Wide<S>;
};

}  // namespace

template <class S, class T>
std::unique_ptr<ResidualKernels> make_residual() {
  return std::make_unique<RefResidual<S, T>>();
}
ZAYA_REF_FAMILY(ResidualKernels, make_residual)

}  // namespace zaya::ref
