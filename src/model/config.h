// SPDX-License-Identifier: Apache-2.0
//
// Shape and options of a model, under the names of the published config.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/types.h"

namespace zaya {

struct ModelConfig {
  std::string preset;  // fills the fields below before the file's own values
  Index vocab_size = 262272;
  Index hidden_size = 2048;
  Index num_hidden_layers = 40;
  Index num_attention_heads = 8;
  Index num_key_value_heads = 2;
  Index head_dim = 128;
  Index num_experts = 16;
  Index moe_intermediate_size = 2048;
  Index router_hidden_size = 256;
  Index cca_time0 = 2;
  Index cca_time1 = 2;
  std::vector<std::string> layer_types;  // "hybrid" or "hybrid_sliding"; empty: all hybrid
  Index sliding_window = 0;              // keys seen, the query included; 0 = no sliding layers
  double rope_theta = 5e6;
  double rope_theta_sliding = 1e4;
  double partial_rotary_factor = 0.5;
  double partial_rotary_factor_sliding = 0.5;
  double rms_norm_eps = 1e-5;
  double router_norm_eps = 0;  // 0: as rms_norm_eps
  Index max_position_embeddings = 131072;
  bool tie_word_embeddings = true;
  bool attention_bias = false;
  bool lm_head_bias = false;
  Index pad_token_id = 0;  // -1: none. Lookups of this row get no gradient.
  Index bos_token_id = 2;
  Index eos_token_id = 1;
  double initializer_range = 0.02;
  // 0: router_initializer_gain / sqrt(inputs), so that a fresh router's probabilities differ
  // between tokens by more than one step of the balancing controller.
  double router_initializer_range = 0;
  double router_initializer_gain = 0.7;
  std::string router_kind = "mlp";  // mlp: the published one; linear: for comparison
  double temperature_init = 1;
  std::string skip_output = "zero";  // zero or identity: what a token that chooses skip gets

  Index conv_channels() const {  // W
    return (num_attention_heads + num_key_value_heads) * head_dim;
  }
  Index half_value() const { return num_key_value_heads * head_dim / 2; }  // U
  bool is_sliding(Index layer) const;
  double theta(Index layer) const;
  // Channels of each head that turn: trunc(head_dim * factor).
  Index rotary_channels(Index layer) const;
  double router_eps() const { return router_norm_eps > 0 ? router_norm_eps : rms_norm_eps; }

  bool operator==(const ModelConfig&) const = default;
};

// The fields of section [model].
FieldList list_fields(ModelConfig& config);

// Names that `preset` may have, and the configuration of one. Error{usage} for an unknown name.
std::vector<std::string> model_preset_names();
ModelConfig model_preset(std::string_view name);

// Error{usage} naming `where` and the first rule that is broken: divisibility, even widths, known
// layer types, ...
void check_model_config(const ModelConfig& config, std::string_view where);

}  // namespace zaya
