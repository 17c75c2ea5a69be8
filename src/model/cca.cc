// SPDX-License-Identifier: Apache-2.0
#include "model/cca.h"

#include <algorithm>

#include "model/decode_state.h"

namespace zaya {

namespace {

// Columns of q in qk0, and the whole width.
Index query_columns(const ModelConfig& c) { return c.num_attention_heads * c.head_dim; }

}  // namespace

Cca::Cca(const ParamScope& scope, const ModelConfig& c, Index layer)
    : config_(c),
      layer_(layer),
      q_(scope.declare("qkv_proj.q_proj.weight", {query_columns(c), c.hidden_size},
                       init_normal(c.initializer_range), kMatrix)),
      k_(scope.declare("qkv_proj.k_proj.weight", {2 * c.half_value(), c.hidden_size},
                       init_normal(c.initializer_range), kMatrix)),
      v_current_(scope.declare("qkv_proj.v_proj_current.weight", {c.half_value(), c.hidden_size},
                               init_normal(c.initializer_range), kMatrix)),
      v_delayed_(scope.declare("qkv_proj.v_proj_delayed.weight", {c.half_value(), c.hidden_size},
                               init_normal(c.initializer_range), kMatrix)),
      q_bias_(scope.declare_if(c.attention_bias, "qkv_proj.q_proj.bias", {query_columns(c)},
                               init_constant(0), kVector)),
      k_bias_(scope.declare_if(c.attention_bias, "qkv_proj.k_proj.bias", {2 * c.half_value()},
                               init_constant(0), kVector)),
      v_current_bias_(scope.declare_if(c.attention_bias, "qkv_proj.v_proj_current.bias",
                                       {c.half_value()}, init_constant(0), kVector)),
      v_delayed_bias_(scope.declare_if(c.attention_bias, "qkv_proj.v_proj_delayed.bias",
                                       {c.half_value()}, init_constant(0), kVector)),
      w0_(scope.declare("qkv_proj.conv_qk_depthwise.weight", {c.conv_channels(), 1, c.cca_time0},
                        init_normal(c.initializer_range),
                        {OptimizerRole::adamw, true, WeightType::stream})),
      b0_(scope.declare("qkv_proj.conv_qk_depthwise.bias", {c.conv_channels()}, init_constant(0),
                        kVector)),
      w1_(scope.declare(
          "qkv_proj.conv_qk_grouped.weight", {c.conv_channels(), c.head_dim, c.cca_time1},
          init_normal(c.initializer_range), {OptimizerRole::adamw, true, WeightType::compute})),
      b1_(scope.declare("qkv_proj.conv_qk_grouped.bias", {c.conv_channels()}, init_constant(0),
                        kVector)),
      temp_(scope.declare("qk_norm.temp", {c.num_key_value_heads},
                          init_constant(c.temperature_init), kVector)),
      o_(scope.declare("o_proj.weight", {c.hidden_size, query_columns(c)},
                       init_normal(c.initializer_range), kMatrix)),
      o_bias_(scope.declare_if(c.attention_bias, "o_proj.bias", {c.hidden_size}, init_constant(0),
                               kVector)) {}

ConvolveArgs Cca::convolve_args(const Pass& pass, ConstTensor qk0) const {
  ConvolveArgs args;
  args.heads = config_.num_attention_heads + config_.num_key_value_heads;
  args.qk0 = qk0;
  if (pass.decode != nullptr) args.history = pass.decode->block(layer_).columns;
  args.w0 = w0_.weight;
  args.b0 = b0_.weight;
  args.w1 = w1_.weight;
  args.b1 = b1_.weight;
  args.segments = pass.batch.segments;
  return args;
}

QkMixArgs Cca::mix_args(const Pass& pass, ConstTensor qk0, ConstTensor z) const {
  QkMixArgs args;
  args.query_heads = config_.num_attention_heads;
  args.key_heads = config_.num_key_value_heads;
  args.z = z;
  args.qk0 = qk0;
  args.temp = temp_.weight;
  args.positions = pass.batch.positions;
  args.rotary = rotary_;
  return args;
}

void Cca::forward(Pass& pass, Tensor x, Tensor a, Saved& s) const {
  const Profile::Scope timed(pass.profile, "attention projections", "forward");
  const Backend& b = pass.backend;
  const Rewind rewind(pass.scratch);
  const Index tokens = x.dim(0), width = config_.conv_channels(), half = config_.half_value();
  const Index heads = config_.num_attention_heads, key_heads = config_.num_key_value_heads;
  const Index channels = config_.head_dim;
  if (!pass.batch.padding.is_none()) b.move->zero_rows(pass.batch.padding, x);
  s.x = x;
  s.qk0 = pass.saved.take(b.compute(), {tokens, width});
  s.z = pass.saved.take(b.compute(), {tokens, width});
  s.norm = pass.saved.take(b.stream(), {tokens, heads + key_heads});
  s.q = pass.saved.take(b.compute(), {tokens, heads, channels});
  s.k = pass.saved.take(b.compute(), {tokens, key_heads, channels});
  s.v = pass.saved.take(b.compute(), {tokens, key_heads, channels});
  s.out = pass.saved.take(b.compute(), {tokens, heads, channels});
  s.lse = pass.saved.take(b.stream(), {tokens, heads});

  const Index q_columns = query_columns(config_);
  b.gemm->forward(x, q_.weight, weight_of(q_bias_), s.qk0.column_window(0, q_columns));
  b.gemm->forward(x, k_.weight, weight_of(k_bias_), s.qk0.column_window(q_columns, width));
  const Tensor vcd = pass.scratch.take(b.compute(), {tokens, 2 * half});
  b.gemm->forward(x, v_current_.weight, weight_of(v_current_bias_), vcd.column_window(0, half));
  b.gemm->forward(x, v_delayed_.weight, weight_of(v_delayed_bias_),
                  vcd.column_window(half, 2 * half));
  {
    const Profile::Scope prologue(pass.profile, "attention prologue", "forward");
    b.cca->convolve_forward(convolve_args(pass, s.qk0), s.z);
    b.cca->mix_forward(mix_args(pass, s.qk0, s.z), s.q, s.k, s.norm);
    const ConstTensor delayed =
        pass.decode == nullptr ? ConstTensor{} : ConstTensor(pass.decode->block(layer_).delayed);
    b.cca->values_forward(vcd, weight_of(v_delayed_bias_), delayed, pass.batch.segments,
                          s.v.reshaped({tokens, 2 * half}));
  }
  if (pass.decode == nullptr) {
    const Profile::Scope core(pass.profile, "attention", "forward");
    AttentionArgs args{s.q, s.k, s.v, pass.batch.spans, 0, pass.batch.padding};
    if (config_.is_sliding(layer_)) args.window = config_.sliding_window;
    b.attention->forward(args, s.out, s.lse);
  } else {
    attend_cached(pass, vcd, s);
  }
  b.gemm->forward(s.out.reshaped({tokens, q_columns}), o_.weight, weight_of(o_bias_), a);
}

void Cca::attend_cached(Pass& pass, ConstTensor vcd, const Saved& s) const {
  const Profile::Scope timed(pass.profile, "attention", "forward");
  const Backend& b = pass.backend;
  const DecodeState::Block& cache = pass.decode->block(layer_);
  for (std::size_t i = 0; i < pass.batch.segments.size(); ++i) {
    const Segment& segment = pass.batch.segments[i];
    const Index row = pass.decode_rows[i], count = segment.end - segment.begin;
    const Index first = row * pass.decode->capacity() + pass.decode->length(row);
    ZAYA_CHECK(pass.decode->length(row) + count <= pass.decode->capacity());
    b.move->copy(s.k.slice(segment.begin, segment.end), cache.keys.slice(first, first + count));
    b.move->copy(s.v.slice(segment.begin, segment.end), cache.values.slice(first, first + count));
  }
  AttentionArgs args{s.q, cache.keys, cache.values, pass.batch.spans, 0, ConstTensor{}};
  if (config_.is_sliding(layer_)) args.window = config_.sliding_window;
  b.attention->forward(args, s.out, s.lse);
  remember_columns(pass, s, vcd);
}

void Cca::remember_columns(Pass& pass, const Saved& s, ConstTensor vcd) const {
  const Backend& b = pass.backend;
  const DecodeState::Block& cache = pass.decode->block(layer_);
  const Index half = config_.half_value(), kept = config_.cca_time0 + config_.cca_time1 - 2;
  for (std::size_t i = 0; i < pass.batch.segments.size(); ++i) {
    const Segment& segment = pass.batch.segments[i];
    const Index row = pass.decode_rows[i], count = segment.end - segment.begin;
    if (count == 0) continue;
    b.move->copy(vcd.column_window(half, 2 * half).slice(segment.end - 1, segment.end),
                 cache.delayed.slice(row, row + 1));
    if (kept == 0) continue;
    const Tensor columns = cache.columns[row];  // [kept, W]
    const Index fresh = std::min(kept, count);
    // Old columns move up one by one, so that source and target never overlap.
    for (Index j = 0; j + fresh < kept; ++j) {
      b.move->copy(columns.slice(j + fresh, j + fresh + 1), columns.slice(j, j + 1));
    }
    b.move->copy(s.qk0.slice(segment.end - fresh, segment.end), columns.slice(kept - fresh, kept));
  }
}

void Cca::backward(Pass& pass, const Saved& s, ConstTensor da, Tensor dx) const {
  const Profile::Scope timed(pass.profile, "attention projections", "backward");
  const Backend& b = pass.backend;
  const Gradients& d = *pass.gradients;
  const Rewind rewind(pass.scratch);
  const Index tokens = s.x.dim(0), width = config_.conv_channels(), half = config_.half_value();
  const Index heads = config_.num_attention_heads, key_heads = config_.num_key_value_heads;
  const Index channels = config_.head_dim, q_columns = query_columns(config_);
  const Tensor dout = pass.scratch.take(b.compute(), {tokens, heads, channels});
  b.gemm->backward_weight(da, s.out.reshaped({tokens, q_columns}), d.of(o_), d.of(o_bias_));
  b.gemm->backward_input(da, o_.weight, dout.reshaped({tokens, q_columns}), false);

  const Tensor dq = pass.scratch.take(b.compute(), {tokens, heads, channels});
  const Tensor dk = pass.scratch.take(b.compute(), {tokens, key_heads, channels});
  const Tensor dv = pass.scratch.take(b.compute(), {tokens, key_heads, channels});
  {
    const Profile::Scope core(pass.profile, "attention", "backward");
    AttentionArgs args{s.q, s.k, s.v, pass.batch.spans, 0, pass.batch.padding};
    if (config_.is_sliding(layer_)) args.window = config_.sliding_window;
    b.attention->backward(args, s.out, s.lse, dout, pass.scratch.take(b.stream(), {tokens, heads}),
                          dq, dk, dv);
  }

  const Tensor dvcd = pass.scratch.take(b.compute(), {tokens, 2 * half});
  const Tensor dz = pass.scratch.take(b.compute(), {tokens, width});
  const Tensor dqk0 = pass.scratch.take(b.compute(), {tokens, width});
  {
    const Profile::Scope prologue(pass.profile, "attention prologue", "backward");
    b.cca->values_backward(dv.reshaped({tokens, 2 * half}), pass.batch.segments, dvcd,
                           d.of(v_delayed_bias_));
    b.cca->mix_backward(mix_args(pass, s.qk0, s.z), s.norm, dq, dk, dz, dqk0, d.of(temp_));
    b.cca->convolve_backward(convolve_args(pass, s.qk0), dz, dqk0,
                             {d.of(w0_), d.of(b0_), d.of(w1_), d.of(b1_)});
  }

  // x feeds four projections; their input gradients add up in dx.
  const ConstTensor dv_delayed = dvcd.column_window(half, 2 * half);
  const ConstTensor dv_current = dvcd.column_window(0, half);
  const ConstTensor dk0 = dqk0.column_window(q_columns, width);
  const ConstTensor dq0 = dqk0.column_window(0, q_columns);
  b.gemm->backward_weight(dv_delayed, s.x, d.of(v_delayed_), d.of(v_delayed_bias_));
  b.gemm->backward_weight(dv_current, s.x, d.of(v_current_), d.of(v_current_bias_));
  b.gemm->backward_weight(dk0, s.x, d.of(k_), d.of(k_bias_));
  b.gemm->backward_weight(dq0, s.x, d.of(q_), d.of(q_bias_));
  b.gemm->backward_input(dq0, q_.weight, dx, false);
  b.gemm->backward_input(dk0, k_.weight, dx, true);
  b.gemm->backward_input(dv_current, v_current_.weight, dx, true);
  b.gemm->backward_input(dv_delayed, v_delayed_.weight, dx, true);
  if (!pass.batch.padding.is_none()) b.move->zero_rows(pass.batch.padding, dx);
}

}  // namespace zaya
