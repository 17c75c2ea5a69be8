// SPDX-License-Identifier: Apache-2.0
//
// Entry of tokens and residual mixing, one trip through memory each. The gradients of the four
// vectors of a mix follow from three sums over tokens; the scattered rows of the table's gradient
// are split into column stripes, so that every element is summed in the order of tokens.
#include "backend/residual.h"

#include <algorithm>
#include <utility>

#include "backend/cpu/context.h"
#include "backend/cpu/residual_simd.h"

namespace zaya {

namespace {

MixRows mix_rows(ConstTensor r, ConstTensor a, const MixVectors& p) {
  const MixRows rows = {.r = rows_of(r),
                        .a = rows_of(a),
                        .s_r = p.s_r.as<float, 1>().data(),
                        .b_r = p.b_r.as<float, 1>().data(),
                        .s_a = p.s_a.as<float, 1>().data(),
                        .b_a = p.b_a.as<float, 1>().data(),
                        .width = r.columns()};
  ZAYA_CHECK(!rows.r.is_bf16);
  return rows;
}

class CpuResidual final : public ResidualKernels {
 public:
  explicit CpuResidual(CpuContextPtr context)
      : context_(std::move(context)), simd_(residual_simd(context_->set)) {}

  void entry_forward(ConstTensor ids, ConstTensor table, ConstTensor b, ConstTensor s,
                     Tensor x) noexcept override {
    const EntryRows args = entry_rows(ids, table, b, s);
    const Rows to = mutable_rows_of(x);
    ZAYA_CHECK(!to.is_bf16);
    run_blocks(context_->pool, x.rows(), kBlockRows,
               [&](Index begin, Index end, int) { simd_.entry_forward(args, begin, end, to); });
  }

  void entry_backward(ConstTensor ids, ConstTensor table, ConstTensor b, ConstTensor s,
                      ConstTensor dx, Index pad_id, Tensor dtable, Tensor db,
                      Tensor ds) noexcept override {
    const EntryBackward whole = {.entry = entry_rows(ids, table, b, s),
                                 .dx = dx.as<float, 2>().data(),
                                 .dx_stride = dx.row_stride(),
                                 .num_tokens = dx.rows(),
                                 .pad_id = pad_id,
                                 .dtable = dtable.as<float, 2>().data(),
                                 .dtable_stride = dtable.row_stride(),
                                 .db = db.as<float, 1>().data(),
                                 .ds = ds.as<float, 1>().data()};
    const Index element_bytes = size_of(table.dtype());
    const Index columns = whole.entry.width >= 8 * kEntryColumns ? kEntryColumns : 64;
    run_blocks(context_->pool, whole.entry.width, columns, [&](Index begin, Index end, int) {
      EntryBackward part = whole;
      part.entry.table.data =
          static_cast<const std::byte*>(whole.entry.table.data) + begin * element_bytes;
      part.entry.b += begin;
      part.entry.s += begin;
      part.entry.width = end - begin;
      part.dx += begin;
      part.dtable += begin;
      part.db += begin;
      part.ds += begin;
      simd_.entry_backward(part);
    });
  }

  void mix_forward(ConstTensor r, ConstTensor a, const MixVectors& p, Tensor y) noexcept override {
    const MixRows args = mix_rows(r, a, p);
    const Rows to = mutable_rows_of(y);
    ZAYA_CHECK(!to.is_bf16);
    run_blocks(context_->pool, y.rows(), kBlockRows,
               [&](Index begin, Index end, int) { simd_.mix_forward(args, begin, end, to); });
  }

  void mix_backward(ConstTensor r, ConstTensor a, const MixVectors& p, Tensor dr, Tensor da,
                    const MixGradients& d) noexcept override {
    const MixRows args = mix_rows(r, a, p);
    const Rows dr_rows = mutable_rows_of(dr), da_rows = mutable_rows_of(da);
    ZAYA_CHECK(!dr_rows.is_bf16 && da_rows.is_bf16 == args.a.is_bf16);
    const Index size = 3 * args.width, blocks = num_blocks(r.rows(), kBlockRows);
    context_->shared.reset(Workspace::rounded(size * Index{sizeof(float)}) +
                           Workspace::rounded(blocks * size * Index{sizeof(float)}));
    float* sums = context_->shared.take<float>(size);
    float* parts = context_->shared.take<float>(blocks * size);
    run_blocks(context_->pool, r.rows(), kBlockRows, [&](Index begin, Index end, int) {
      simd_.mix_backward(args, begin, end, dr_rows, da_rows, parts + begin / kBlockRows * size);
    });
    std::fill_n(sums, size, 0.0f);
    add_parts(*context_, parts, blocks, size, sums);
    simd_.mix_gradients(args, sums,
                        {.s_r = d.s_r.as<float, 1>().data(),
                         .b_r = d.b_r.as<float, 1>().data(),
                         .s_a = d.s_a.as<float, 1>().data(),
                         .b_a = d.b_a.as<float, 1>().data()});
  }

 private:
  static EntryRows entry_rows(ConstTensor ids, ConstTensor table, ConstTensor b, ConstTensor s) {
    return {.ids = ids.as<std::int32_t, 1>().data(),
            .table = rows_of(table),
            .b = b.as<float, 1>().data(),
            .s = s.as<float, 1>().data(),
            .width = table.columns()};
  }

  CpuContextPtr context_;
  const ResidualSimd& simd_;
};

}  // namespace

std::unique_ptr<ResidualKernels> make_cpu_residual(CpuContextPtr context) {
  return std::make_unique<CpuResidual>(std::move(context));
}

}  // namespace zaya
