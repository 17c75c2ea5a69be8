// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include <cmath>
#include <complex>
#include <utility>
#include <vector>

namespace zaya {

namespace {

std::deque<Block> make_blocks(const ParamScope& scope, const ModelConfig& config) {
  std::deque<Block> blocks;
  for (Index i = 0; i < config.num_hidden_layers; ++i) {
    blocks.emplace_back(scope.scope("layers").scope(std::to_string(i)), config, i);
  }
  return blocks;
}

// Cosines and sines of position * theta^(-2j/n). For runs the frequency and the angle are rounded
// to f32 as the published code does; exact numerics keep double.
template <class S>
void fill_rotary(double theta, Tensor table) {
  const auto out = table.as<S, 3>();
  const Index half = out.dim(2);
  for (Index p = 0; p < out.dim(0); ++p) {
    for (Index j = 0; j < half; ++j) {
      double angle;
      const double exponent = static_cast<double>(2 * j) / static_cast<double>(2 * half);
      if constexpr (std::is_same_v<S, float>) {
        const float frequency = static_cast<float>(1.0 / std::pow(theta, exponent));
        angle = static_cast<float>(p) * frequency;
      } else {
        angle = static_cast<double>(p) / std::pow(theta, exponent);
      }
      out[p][0][j] = static_cast<S>(std::cos(angle));
      out[p][1][j] = static_cast<S>(std::sin(angle));
    }
  }
}

}  // namespace

Model::Model(const ModelConfig& config, ParamSet& params)
    : config_(config),
      embedding_(ParamScope(params, "model"), config),
      blocks_(make_blocks(ParamScope(params, "model"), config)),
      head_(ParamScope(params, "model"), ParamScope(params), config, embedding_.table()) {
  for (Block& block : blocks_) block.router().balancing_biases().init = init_constant(0);
}

void Model::bind(Arena& run, const Backend& backend, Index max_positions) {
  const Arena::Scope scope(run, "rotary tables");
  std::vector<std::pair<std::pair<double, Index>, Tensor>> tables;
  for (Index i = 0; i < config_.num_hidden_layers; ++i) {
    const std::pair<double, Index> key{config_.theta(i), config_.rotary_channels(i)};
    Tensor table;
    for (const auto& [known, tensor] : tables) {
      if (known == key) table = tensor;
    }
    if (table.is_none()) {
      table = run.take(backend.stream(), {max_positions, 2, key.second / 2});
      tables.emplace_back(key, table);
      if (table.data() != nullptr) {
        switch (backend.stream()) {
          case DType::f64: fill_rotary<double>(key.first, table); break;
          case DType::c128: fill_rotary<std::complex<double>>(key.first, table); break;
          default: fill_rotary<float>(key.first, table);
        }
      }
    }
    blocks_[i].cca().bind_rotary(table);
  }
}

void Model::reset_balancing() const {
  for (const Block& block : blocks_) {
    const Param& biases = block.router().balancing_biases();
    const Tensor tensor = biases.weight;
    for (Index e = 0; e < tensor.count(); ++e) {
      const double value = e + 1 == tensor.count() ? -1 : 0;
      switch (tensor.dtype()) {
        case DType::f64: tensor.as<double, 1>()[e] = value; break;
        case DType::c128: tensor.as<std::complex<double>, 1>()[e] = value; break;
        default: tensor.as<float, 1>()[e] = static_cast<float>(value);
      }
    }
  }
}

void Model::forward(Pass& pass, Activations& act) const {
  const Backend& b = pass.backend;
  const Index tokens = pass.batch.num_tokens();
  const Shape stream_shape{tokens, config_.hidden_size};
  const Shape router_shape{tokens, config_.router_hidden_size};
  const bool keeps_blocks =
      pass.trace != nullptr || (pass.gradients != nullptr && !pass.recomputes);
  act.streams.resize(blocks_.size() + 1);
  act.blocks.resize(blocks_.size());
  const bool keeps_streams = pass.trace != nullptr || pass.gradients != nullptr;
  for (std::size_t i = 0; i <= blocks_.size(); ++i) {
    const bool is_own = keeps_streams || i < 3;  // else two buffers take turns
    act.streams[i].r = is_own ? pass.saved.take(b.stream(), stream_shape) : act.streams[i - 2].r;
    if (i == 0) continue;
    act.streams[i].router =
        is_own ? pass.saved.take(b.stream(), router_shape) : act.streams[i - 2].router;
  }
  embedding_.forward(pass, act.streams[0].r);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Index mark = pass.saved.mark();
    blocks_[i].forward(pass, act.streams[i], act.streams[i + 1], act.blocks[i]);
    if (!keeps_blocks) pass.saved.rewind(mark);
  }
  head_.normalize(pass, act.streams.back().r, act.head);
  if (pass.trace == nullptr) return;
  pass.trace->final = act.head.x;
  for (const Stream& stream : act.streams) pass.trace->hidden.push_back(stream.r);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    pass.trace->router_probs.push_back(act.blocks[i].router.probs);
    pass.trace->router_choice.push_back(act.blocks[i].routes.choice);
    pass.trace->router_weight.push_back(act.blocks[i].routes.weight);
  }
}

void Model::backward(Pass& pass, Activations& act, Tensor dr) const {
  const Backend& b = pass.backend;
  const Rewind rewind(pass.scratch);
  Stream d{dr, pass.scratch.take(b.stream(), {dr.dim(0), config_.router_hidden_size})};
  b.move->zero(d.router);  // nothing follows the last router
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const Rewind block_rewind(pass.saved);
    if (pass.recomputes && pass.trace == nullptr) {
      blocks_[i].forward(pass, act.streams[i], act.streams[i + 1], act.blocks[i]);
    }
    blocks_[i].backward(pass, act.blocks[i], d);
  }
  embedding_.backward(pass, d.r);
}

double Model::run(Pass& pass, double scale, Tensor logprobs, Activations& act) const {
  const Index mark = pass.saved.mark();
  forward(pass, act);
  double sum = 0;
  {
    const Rewind rewind(pass.scratch);
    const Tensor dr = pass.gradients == nullptr
                          ? Tensor{}
                          : pass.scratch.take(pass.backend.stream(), act.streams[0].r.shape());
    sum = head_.loss(pass, act.head, scale, dr, logprobs);
    if (pass.gradients != nullptr) backward(pass, act, dr);
  }
  if (pass.trace == nullptr) pass.saved.rewind(mark);
  return sum;
}

Tensor Model::encode(Pass& pass) const {
  Activations act;
  forward(pass, act);
  if (pass.decode != nullptr) {
    for (std::size_t i = 0; i < pass.batch.segments.size(); ++i) {
      const Segment& segment = pass.batch.segments[i];
      pass.decode->advance(pass.decode_rows[i], segment.end - segment.begin);
    }
  }
  return act.head.x;
}

}  // namespace zaya
