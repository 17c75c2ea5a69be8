// SPDX-License-Identifier: Apache-2.0
#include "model/config.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"

namespace zaya {

bool ModelConfig::is_sliding(Index layer) const {
  return !layer_types.empty() && layer_types[layer] == "hybrid_sliding";
}

double ModelConfig::theta(Index layer) const {
  return is_sliding(layer) ? rope_theta_sliding : rope_theta;
}

Index ModelConfig::rotary_channels(Index layer) const {
  const double factor = is_sliding(layer) ? partial_rotary_factor_sliding : partial_rotary_factor;
  // The small addition keeps products such as 10 * 0.7 from falling below the integer they mean.
  return static_cast<Index>(static_cast<double>(head_dim) * factor + 1e-9);
}

namespace {

constexpr double kMaxSize = 1 << 24;
// Far beyond any machine; sums of bytes over fewer parameters stay within 64 bits.
constexpr double kMaxParameters = 1e15;

// Roughly, and in real numbers, since the product of extents may leave 64 bits.
double estimated_parameters(const ModelConfig& c) {
  const auto real = [](Index n) { return static_cast<double>(n); };
  const double width = real(c.hidden_size), router = real(c.router_hidden_size);
  const double heads = real(c.num_attention_heads) + real(c.num_key_value_heads);
  const double channels = heads * real(c.head_dim);
  const double attention = 2 * width * channels + channels * real(c.head_dim) * real(c.cca_time1);
  const double routing = router * (width + 2 * router + real(c.num_experts));
  const double experts = 3 * width * real(c.moe_intermediate_size) * real(c.num_experts);
  return real(c.num_hidden_layers) * (attention + routing + experts) +
         2 * width * real(c.vocab_size);
}

}  // namespace

FieldList list_fields(ModelConfig& c) {
  FieldList f;
  f.add("preset", c.preset, "Shape to start from: a name such as zaya1-8b, or empty.").cosmetic();
  f.add("vocab_size", c.vocab_size, "Rows of the token table (V).").range(1, 1 << 28);
  f.add("hidden_size", c.hidden_size, "Width of the stream (D).").range(1, kMaxSize);
  f.add("num_hidden_layers", c.num_hidden_layers, "Blocks (L); each is attention + experts.")
      .range(1, 100000);
  f.add("num_attention_heads", c.num_attention_heads, "Query heads (H).").range(1, kMaxSize);
  f.add("num_key_value_heads", c.num_key_value_heads, "Key-value heads (G).").range(1, kMaxSize);
  f.add("head_dim", c.head_dim, "Channels per head (C).").range(1, kMaxSize);
  f.add("num_experts", c.num_experts, "Experts per block (E), the skip class not counted.")
      .range(1, 1 << 16);
  f.add("moe_intermediate_size", c.moe_intermediate_size, "Inner width of an expert (F).")
      .range(1, kMaxSize);
  f.add("router_hidden_size", c.router_hidden_size, "Width of the router (R).").range(1, kMaxSize);
  f.add("cca_time0", c.cca_time0, "Taps of the depthwise convolution.").range(1, 64);
  f.add("cca_time1", c.cca_time1, "Taps of the grouped convolution.").range(1, 64);
  f.add("layer_types", c.layer_types, "Attention kind per block; empty: all hybrid.")
      .choices({"hybrid", "hybrid_sliding"});
  f.add("sliding_window", c.sliding_window, "Keys that a sliding block sees, the query included.")
      .range(0, 1 << 30);
  f.add("rope_theta", c.rope_theta, "Rotary base of hybrid blocks.").range(1, 1e15);
  f.add("rope_theta_sliding", c.rope_theta_sliding, "Rotary base of sliding blocks.")
      .range(1, 1e15);
  f.add("partial_rotary_factor", c.partial_rotary_factor, "Share of channels that turn.")
      .range(0, 1);
  f.add("partial_rotary_factor_sliding", c.partial_rotary_factor_sliding,
        "Share of channels that turn in sliding blocks.")
      .range(0, 1);
  f.add("rms_norm_eps", c.rms_norm_eps, "Epsilon of the norms.").range(0, 1);
  f.add("router_norm_eps", c.router_norm_eps, "Epsilon of the router's norm; 0: as rms_norm_eps.")
      .range(0, 1);
  f.add("max_position_embeddings", c.max_position_embeddings, "Longest sequence.")
      .range(1, 1 << 30);
  f.add("tie_word_embeddings", c.tie_word_embeddings, "Head and token table are one tensor.");
  f.add("attention_bias", c.attention_bias, "Biases in the projections of attention.");
  f.add("lm_head_bias", c.lm_head_bias, "Bias of the head.");
  f.add("pad_token_id", c.pad_token_id, "Row whose lookups get no gradient; -1: none.")
      .range(-1, 1 << 28);
  f.add("bos_token_id", c.bos_token_id, "Begin of text; -1: none.").range(-1, 1 << 28);
  f.add("eos_token_id", c.eos_token_id, "End of text; -1: none.").range(-1, 1 << 28);
  f.add("initializer_range", c.initializer_range, "Standard deviation of fresh weights.")
      .range(0, 10);
  f.add("router_initializer_range", c.router_initializer_range,
        "Standard deviation of fresh router matrices; 0: by router_initializer_gain.")
      .range(0, 10);
  f.add("router_initializer_gain", c.router_initializer_gain,
        "Fresh router matrices have the standard deviation gain / sqrt(inputs).")
      .range(0, 100);
  f.add("router_kind", c.router_kind,
        "mlp: the published router; linear: one matrix, for comparison.")
      .choices({"mlp", "linear"});
  f.add("temperature_init", c.temperature_init, "Start value of the key temperature.")
      .range(-100, 100);
  f.add("skip_output", c.skip_output, "What a token that chooses the skip class gets.")
      .choices({"zero", "identity"});
  return f;
}

std::vector<std::string> model_preset_names() {
  return {"tiny", "quickstart", "s1", "s2", "zaya1-base", "zaya1-8b", "zaya1-74b-preview"};
}

namespace {

ModelConfig small_preset(Index hidden, Index layers, Index heads, Index head_dim, Index experts,
                         Index inner, Index router, Index vocabulary) {
  ModelConfig c;
  c.hidden_size = hidden;
  c.num_hidden_layers = layers;
  c.num_attention_heads = heads;
  c.num_key_value_heads = 2;
  c.head_dim = head_dim;
  c.num_experts = experts;
  c.moe_intermediate_size = inner;
  c.router_hidden_size = router;
  c.vocab_size = vocabulary;
  c.max_position_embeddings = 4096;
  c.rope_theta = 1e4;
  c.pad_token_id = -1;
  c.bos_token_id = -1;
  c.eos_token_id = 0;
  return c;
}

}  // namespace

ModelConfig model_preset(std::string_view name) {
  ModelConfig c;
  if (name == "tiny") {
    c = small_preset(32, 2, 4, 8, 4, 32, 16, 64);
  } else if (name == "quickstart") {
    c = small_preset(256, 4, 4, 64, 8, 256, 64, 8192);
  } else if (name == "s1") {
    c = small_preset(512, 8, 8, 64, 8, 512, 64, 32768);
  } else if (name == "s2") {
    c = small_preset(1024, 12, 8, 128, 16, 1024, 128, 32768);
  } else if (name == "zaya1-base") {
    c.rope_theta = 1e6;
    c.max_position_embeddings = 32768;
    c.router_norm_eps = 1e-6;
  } else if (name == "zaya1-8b") {
    c.eos_token_id = 106;
  } else if (name == "zaya1-74b-preview") {
    c.hidden_size = c.moe_intermediate_size = 4096;
    c.num_hidden_layers = 60;
    c.num_attention_heads = 16;
    c.num_experts = 24;
    c.sliding_window = 4097;
    c.max_position_embeddings = 262144;
    c.eos_token_id = 106;
    for (Index i = 0; i < 60; ++i) c.layer_types.push_back(i % 2 ? "hybrid" : "hybrid_sliding");
  } else {
    const std::vector<std::string> names = model_preset_names();
    throw Error{ErrorKind::usage,
                fmt::format("model.preset: unknown preset {}{}", name, did_you_mean(name, names))};
  }
  c.preset = name;
  return c;
}

void check_model_config(const ModelConfig& c, std::string_view where) {
  const auto require = [&](bool holds, const std::string& problem) {
    if (!holds) throw Error{ErrorKind::usage, fmt::format("{}: {}", where, problem)};
  };
  require(c.num_attention_heads % c.num_key_value_heads == 0,
          fmt::format("num_attention_heads ({}) must be a multiple of num_key_value_heads ({})",
                      c.num_attention_heads, c.num_key_value_heads));
  require(c.num_key_value_heads * c.head_dim % 2 == 0,
          fmt::format("num_key_value_heads * head_dim ({} * {}) must be even: half of the value "
                      "channels are delayed",
                      c.num_key_value_heads, c.head_dim));
  require(c.layer_types.empty() || static_cast<Index>(c.layer_types.size()) == c.num_hidden_layers,
          fmt::format("layer_types has {} entries for {} layers", c.layer_types.size(),
                      c.num_hidden_layers));
  const double parameters = estimated_parameters(c);
  require(parameters <= kMaxParameters,
          fmt::format("the sizes give {:.1e} parameters, which is more than any machine holds",
                      parameters));
  for (Index i = 0; i < c.num_hidden_layers; ++i) {
    require(c.rotary_channels(i) % 2 == 0 && c.rotary_channels(i) <= c.head_dim,
            fmt::format("head_dim {} and the rotary factor give {} rotary channels; the number "
                        "must be even",
                        c.head_dim, c.rotary_channels(i)));
    require(!c.is_sliding(i) || c.sliding_window > 0,
            "layer_types has hybrid_sliding but sliding_window is not set");
  }
  for (const Index id : {c.pad_token_id, c.bos_token_id, c.eos_token_id}) {
    require(id < c.vocab_size,
            fmt::format("token id {} lies outside the vocabulary of {}", id, c.vocab_size));
  }
}

}  // namespace zaya
