// SPDX-License-Identifier: Apache-2.0
//
// Top-1 experts: tokens are sorted by expert into rows, each expert's rows go through its two
// matrices, results return to their tokens. Nothing is dropped; loads may be as uneven as they
// like. Each expert's rows are padded to a multiple of 16 with rows of zeros.
//
//   [gate | up] = x w1[e]^T;   a = silu(gate) * up;   y = weight * a w2[e]^T
//   skip (choice == E):        y = 0, or weight * x with the identity meaning
#pragma once

#include "tensor/tensor.h"

namespace zaya {

inline constexpr Index kRowPadding = 16;

// Rows that T tokens can need: every expert may end with an incomplete group of 16.
inline Index max_expert_rows(Index num_tokens, Index num_experts) {
  const Index groups = (num_tokens + kRowPadding - 1) / kRowPadding;
  return kRowPadding * (groups + (num_experts < num_tokens ? num_experts : num_tokens));
}

// Where each token's row is. Filled by dispatch(); memory belongs to the caller.
struct RowPlan {
  Tensor row_of_token;  // [T] i32, -1 for skip
  Tensor token_of_row;  // [rows] i32, -1 for padding and unused rows
  Tensor offsets;       // [E+1] i32: expert e has rows offsets[e] .. offsets[e+1], padding included
  Tensor loads;         // [E+1] i64: tokens per class, skip last
};

class ExpertKernels {
 public:
  virtual ~ExpertKernels() = default;

  // Sorts tokens by choice [T] i32; within an expert, tokens keep their order.
  virtual void dispatch(ConstTensor choice, Index num_experts, const RowPlan& plan) noexcept = 0;

  // rows[r] = x[token_of_row[r]], zeros for padding. x [T, D], rows [rows, D] compute type.
  virtual void gather(ConstTensor x, const RowPlan& plan, Tensor rows) noexcept = 0;

  // y[r] = x[r] w[e]^T for the rows r of each expert. x [rows, in], w [E, out, in], y [rows, out],
  // all compute type. Rows behind offsets[E] are not touched, here and below.
  virtual void grouped_forward(ConstTensor x, ConstTensor w, const RowPlan& plan,
                               Tensor y) noexcept = 0;
  // dx[r] = dy[r] w[e].
  virtual void grouped_backward_input(ConstTensor dy, ConstTensor w, const RowPlan& plan,
                                      Tensor dx) noexcept = 0;
  // dw[e] += sum over the rows of e of dy[r]^T x[r]; dw [E, out, in] stream type. An expert without
  // rows is left alone.
  virtual void grouped_backward_weight(ConstTensor dy, ConstTensor x, const RowPlan& plan,
                                       Tensor dw) noexcept = 0;

  // a = silu(gate) * up. gu [rows, 2F] (gate first), a [rows, F] compute type.
  virtual void swiglu_forward(ConstTensor gu, const RowPlan& plan, Tensor a) noexcept = 0;

  // da [rows, F] is the gradient of a for weight 1 (dy w2 without the token's weight). Per row of
  // token t: dgu [rows, 2F] = gradient of gu with weight[t] applied; wa [rows, F] = weight[t] * a
  // (what w2's gradient needs); dweight[t] = a . da. Padding rows become zero.
  virtual void swiglu_backward(ConstTensor gu, ConstTensor da, ConstTensor weight,
                               const RowPlan& plan, Tensor dgu, Tensor wa,
                               Tensor dweight) noexcept = 0;

  // out[t] = weight[t] * y[row_of_token[t]]; for skip: zero, or weight[t] * x[t] if identity. out
  // [T, D] compute type; weight [T] stream type.
  virtual void combine_forward(ConstTensor y, ConstTensor x, ConstTensor weight,
                               const RowPlan& plan, bool skip_is_identity, Tensor out) noexcept = 0;

  // dx[t] = drows[row_of_token[t]], overwritten; for skip: zero, or weight[t] * dout[t] if
  // identity. Sets dweight[t] of skip tokens: zero, or x[t] . dout[t]. dx compute type.
  virtual void combine_backward(ConstTensor drows, ConstTensor dout, ConstTensor x,
                                ConstTensor weight, const RowPlan& plan, bool skip_is_identity,
                                Tensor dx, Tensor dweight) noexcept = 0;
};

}  // namespace zaya
