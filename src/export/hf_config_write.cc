// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "export/hf_config.h"

namespace zaya {

namespace {

Json id_json(Index id) { return id < 0 ? Json() : Json(id); }

Json architectures() {
  Json list = Json::array();
  list.push("ZayaForCausalLM");
  return list;
}

std::string_view dtype_text(DType dtype) { return dtype == DType::bf16 ? "bfloat16" : "float32"; }

Json rotary_entry(double theta, double factor) {
  Json entry = Json::object();
  entry.set("partial_rotary_factor", factor);
  entry.set("rope_theta", theta);
  entry.set("rope_type", "default");
  return entry;
}

bool has_sliding(const ModelConfig& c) {
  for (Index i = 0; i < c.num_hidden_layers; ++i) {
    if (c.is_sliding(i)) return true;
  }
  return false;
}

Json rope_parameters(const ModelConfig& c) {
  const ModelConfig defaults;
  Json out = Json::object();
  out.set("hybrid", rotary_entry(c.rope_theta, c.partial_rotary_factor));
  if (has_sliding(c) || c.rope_theta_sliding != defaults.rope_theta_sliding ||
      c.partial_rotary_factor_sliding != defaults.partial_rotary_factor_sliding) {
    out.set("hybrid_sliding", rotary_entry(c.rope_theta_sliding, c.partial_rotary_factor_sliding));
  }
  return out;
}

Json native_config(const ModelConfig& c, DType dtype) {
  Json types = Json::array();
  for (Index i = 0; i < c.num_hidden_layers; ++i) {
    types.push(c.is_sliding(i) ? "hybrid_sliding" : "hybrid");
  }
  Json out = Json::object();
  out.set("architectures", architectures());
  out.set("attention_bias", c.attention_bias);
  out.set("attention_dropout", 0.0);
  out.set("bos_token_id", id_json(c.bos_token_id));
  out.set("cca_time0", c.cca_time0);
  out.set("cca_time1", c.cca_time1);
  out.set("dtype", dtype_text(dtype));
  out.set("eos_token_id", id_json(c.eos_token_id));
  out.set("head_dim", c.head_dim);
  out.set("hidden_act", "silu");
  out.set("hidden_size", c.hidden_size);
  out.set("initializer_range", c.initializer_range);
  out.set("layer_types", std::move(types));
  out.set("lm_head_bias", c.lm_head_bias);
  out.set("max_position_embeddings", c.max_position_embeddings);
  out.set("model_type", "zaya");
  out.set("moe_intermediate_size", c.moe_intermediate_size);
  out.set("num_attention_heads", c.num_attention_heads);
  out.set("num_experts", c.num_experts);
  out.set("num_experts_per_tok", 1);
  out.set("num_hidden_layers", c.num_hidden_layers);
  out.set("num_key_value_heads", c.num_key_value_heads);
  out.set("output_router_logits", false);
  out.set("pad_token_id", id_json(c.pad_token_id));
  out.set("rms_norm_eps", c.rms_norm_eps);
  out.set("rope_parameters", rope_parameters(c));
  out.set("router_hidden_size", c.router_hidden_size);
  out.set("sliding_window", c.sliding_window > 0 ? Json(c.sliding_window) : Json());
  out.set("tie_word_embeddings", c.tie_word_embeddings);
  out.set("use_cache", true);
  out.set("vocab_size", c.vocab_size);
  return out;
}

// Constant flags of every published legacy file.
void add_legacy_flags(Json& out) {
  for (const char* flag : {"cca", "gated_linear_unit", "residual_in_fp32", "scale_residual_merge",
                           "use_cache", "zaya_use_eda", "zaya_use_mod"}) {
    out.set(flag, true);
  }
  out.set("activation_func", "swiglu");
  out.set("add_bias_linear", false);
  out.set("attention_dropout", 0.0);
  out.set("model_type", "zaya");
  out.set("moe_router_topk", 1);
  out.set("normalization", "RMSNorm");
  out.set("rope_scaling", false);
}

void add_legacy_windows(const ModelConfig& c, Json& out) {
  Json windows = Json::array();
  for (Index i = 0; i < c.num_hidden_layers; ++i) {
    // The legacy window does not count the query; experts have none.
    windows.push(c.is_sliding(i) ? c.sliding_window - 1 : 0);
    windows.push(0);
  }
  out.set("swa_layers", std::move(windows));
  out.set("swa_rotary_base", c.rope_theta_sliding);
}

Json legacy_config(const ModelConfig& c, DType dtype) {
  Json out = Json::object();
  out.set("architectures", architectures());
  add_legacy_flags(out);
  out.set("attention_bias", c.attention_bias);
  out.set("bos_token_id", id_json(c.bos_token_id));
  const ModelConfig defaults;
  if (c.cca_time0 != defaults.cca_time0) out.set("cca_time0", c.cca_time0);
  if (c.cca_time1 != defaults.cca_time1) out.set("cca_time1", c.cca_time1);
  out.set("dtype", dtype_text(dtype));
  out.set("eos_token_id", id_json(c.eos_token_id));
  out.set("ffn_hidden_size", 2 * c.moe_intermediate_size);
  out.set("head_dim", c.head_dim);
  out.set("hidden_size", c.hidden_size);
  if (c.initializer_range != defaults.initializer_range) {
    out.set("initializer_range", c.initializer_range);
  }
  out.set("kv_channels", c.head_dim);
  out.set("lm_head_bias", c.lm_head_bias);
  out.set("max_position_embeddings", c.max_position_embeddings);
  out.set("norm_epsilon", c.rms_norm_eps);
  out.set("num_attention_heads", c.num_attention_heads);
  out.set("num_experts", c.num_experts);
  out.set("num_hidden_layers", 2 * c.num_hidden_layers);
  out.set("num_key_value_heads", c.num_key_value_heads);
  out.set("num_query_groups", c.num_key_value_heads);
  out.set("pad_token_id", id_json(c.pad_token_id));
  out.set("partial_rotary_factor", c.partial_rotary_factor);
  out.set("rope_theta", c.rope_theta);
  out.set("sliding_window", Json());
  if (has_sliding(c)) add_legacy_windows(c, out);
  out.set("tie_word_embeddings", c.tie_word_embeddings);
  out.set("vocab_size", c.vocab_size);
  out.set("zaya_high_prec", true);
  out.set("zaya_mlp_expansion", c.router_hidden_size);
  return out;
}

// What a reader of the file may not know or need: how training began, and names.
ModelConfig without_beginnings(ModelConfig c) {
  const ModelConfig defaults;
  c.preset = "";
  c.router_initializer_range = defaults.router_initializer_range;
  c.router_initializer_gain = defaults.router_initializer_gain;
  c.temperature_init = defaults.temperature_init;
  if (!has_sliding(c)) {
    c.layer_types.clear();
    c.sliding_window = defaults.sliding_window;
    c.rope_theta_sliding = defaults.rope_theta_sliding;
    c.partial_rotary_factor_sliding = defaults.partial_rotary_factor_sliding;
  }
  return c;
}

// The first field in which the two differ.
std::string difference(ModelConfig a, ModelConfig b) {
  const FieldList fields_a = list_fields(a), fields_b = list_fields(b);
  for (std::size_t i = 0; i < fields_a.fields().size(); ++i) {
    if (fields_a.fields()[i].value() != fields_b.fields()[i].value()) {
      return fmt::format("{} = {}", fields_a.fields()[i].name(),
                         fields_a.fields()[i].value().dump());
    }
  }
  return "";
}

Json written(const ModelConfig& model, Layout layout, DType dtype) {
  Json out = layout == Layout::native ? native_config(model, dtype) : legacy_config(model, dtype);
  const std::string_view usual = layout == Layout::native ? "zero" : "identity";
  if (model.skip_output != usual) out.set("skip_output", model.skip_output);
  if (model.router_norm_eps > 0) out.set("router_norm_eps", model.router_norm_eps);
  std::sort(out.members().begin(), out.members().end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return out;
}

// The first field that a reader of the file would take to be another.
std::string lost_field(const ModelConfig& model, const Json& file) {
  const ModelConfig read = parse_hf_config(file, "config.json").model;
  return difference(without_beginnings(model), without_beginnings(read));
}

}  // namespace

Json to_hf_config(const ModelConfig& model, Layout layout, DType dtype) {
  Json out = written(model, layout, dtype);
  const std::string lost = lost_field(model, out);
  if (lost.empty()) return out;
  const Layout other = layout == Layout::native ? Layout::legacy : Layout::native;
  const bool is_possible = lost_field(model, written(model, other, dtype)).empty();
  throw Error{ErrorKind::usage,
              fmt::format("the {} layout can't express {}; {}", name_of(layout), lost,
                          is_possible ? fmt::format("export with --layout {}", name_of(other))
                                      : "no published layout can")};
}

Json to_generation_config(const ModelConfig& model) {
  Json out = Json::object();
  out.set("_from_model_config", true);
  out.set("bos_token_id", id_json(model.bos_token_id));
  out.set("eos_token_id", id_json(model.eos_token_id));
  out.set("pad_token_id", id_json(model.pad_token_id));
  out.set("use_cache", true);
  return out;
}

}  // namespace zaya
