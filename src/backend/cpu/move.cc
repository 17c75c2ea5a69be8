// SPDX-License-Identifier: Apache-2.0
//
// Moving, adding and converting. Contiguous tensors are cut anywhere, column windows between rows.
#include "backend/move.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/cpu/context.h"
#include "backend/cpu/move_simd.h"
#include "backend/cpu/tiles.h"

namespace zaya {

namespace {

// A run of `count` elements in two tensors of one shape.
struct Piece {
  Index from = 0, to = 0, count = 0;
};

ConstRows row_at(const ConstTensor& x, Index begin) {
  ConstRows row = rows_of(x);
  row.data = element(row.data, begin, x.dtype());
  return row;
}
Rows row_at(const Tensor& x, Index begin) {
  Rows row = mutable_rows_of(x);
  row.data = element(row.data, begin, x.dtype());
  return row;
}

class CpuMove final : public MoveKernels {
 public:
  explicit CpuMove(CpuContextPtr context)
      : context_(std::move(context)), simd_(move_simd(context_->set)) {}

  void zero(Tensor x) noexcept override {
    const Index size = size_of(x.dtype());
    for_pieces(x, x, [&](const Piece& p) {
      std::memset(element(x.data(), p.to, x.dtype()), 0, static_cast<std::size_t>(p.count * size));
    });
  }

  void copy(ConstTensor from, Tensor to) noexcept override {
    const bool is_plain = from.dtype() == to.dtype();
    const Index size = size_of(to.dtype());
    for_pieces(from, to, [&](const Piece& p) {
      if (is_plain) {
        std::memcpy(element(to.data(), p.to, to.dtype()),
                    element(from.data(), p.from, from.dtype()),
                    static_cast<std::size_t>(p.count * size));
      } else {
        simd_.convert(row_at(from, p.from), p.count, row_at(to, p.to));
      }
    });
  }

  void add(ConstTensor from, double factor, Tensor to) noexcept override {
    for_pieces(from, to, [&](const Piece& p) {
      simd_.add(row_at(from, p.from), static_cast<float>(factor), p.count, row_at(to, p.to));
    });
  }

  void scale(double factor, Tensor x) noexcept override {
    for_pieces(x, x, [&](const Piece& p) {
      simd_.scale(static_cast<float>(factor), p.count, row_at(x, p.to));
    });
  }

  void zero_rows(ConstTensor mask, Tensor x) noexcept override {
    const auto masks = mask.as<std::uint8_t, 1>();
    const std::size_t bytes = static_cast<std::size_t>(x.columns() * size_of(x.dtype()));
    run_blocks(context_->pool, x.rows(), kBlockRows, [&](Index begin, Index end, int) {
      for (Index t = begin; t < end; ++t) {
        if (masks[t] != 0) std::memset(element(x.data(), t * x.row_stride(), x.dtype()), 0, bytes);
      }
    });
  }

  void gather_rows(ConstTensor x, ConstTensor rows, Tensor out) noexcept override {
    const auto row_of = rows.as<std::int32_t, 1>();
    const std::size_t bytes = static_cast<std::size_t>(out.columns() * size_of(out.dtype()));
    run_blocks(context_->pool, out.rows(), kBlockRows, [&](Index begin, Index end, int) {
      for (Index i = begin; i < end; ++i) {
        std::memcpy(element(out.data(), i * out.row_stride(), out.dtype()),
                    element(x.data(), row_of[i] * x.row_stride(), x.dtype()), bytes);
      }
    });
  }

  void transpose(ConstTensor x, Tensor y) noexcept override {
    run_blocks(context_->pool, x.rows(), kTransposeRows, [&](Index begin, Index end, int) {
      simd_.transpose(row_at(x, begin * x.row_stride()), end - begin, x.columns(),
                      row_at(y, begin));
    });
  }

 private:
  // Calls body(piece) for pieces that make up the elements of both tensors.
  template <class Body>
  void for_pieces(const ConstTensor& from, const ConstTensor& to, Body&& body) {
    if (from.is_contiguous() && to.is_contiguous()) {
      run_blocks(context_->pool, to.count(), kBlockElements, [&](Index begin, Index end, int) {
        body(Piece{.from = begin, .to = begin, .count = end - begin});
      });
      return;
    }
    const Index rows = std::max<Index>(1, kBlockElements / std::max<Index>(1, to.columns()));
    run_blocks(context_->pool, to.rows(), rows, [&](Index begin, Index end, int) {
      for (Index i = begin; i < end; ++i) {
        body(
            Piece{.from = i * from.row_stride(), .to = i * to.row_stride(), .count = to.columns()});
      }
    });
  }

  CpuContextPtr context_;
  const MoveSimd& simd_;
};

}  // namespace

std::unique_ptr<MoveKernels> make_cpu_move(CpuContextPtr context) {
  return std::make_unique<CpuMove>(std::move(context));
}

}  // namespace zaya
