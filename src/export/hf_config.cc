// SPDX-License-Identifier: Apache-2.0
#include "export/hf_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace zaya {

namespace {

// Reads members of one JSON object with messages that say where.
class Reader {
 public:
  Reader(const Json& object, std::string_view where) : object_(object), where_(where) {}

  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error{ErrorKind::damaged, fmt::format("{}: {}", where_, problem)};
  }
  // Null when absent or null.
  const Json* find(std::string_view key) const {
    const Json* value = object_.find(key);
    return value != nullptr && !value->is_null() ? value : nullptr;
  }
  bool has(std::string_view key) const { return find(key) != nullptr; }

  std::optional<Index> integer(std::string_view key) const {
    return read<Index>(key, [](const Json& v) { return v.as_integer(); });
  }
  std::optional<double> real(std::string_view key) const {
    return read<double>(key, [](const Json& v) { return v.as_real(); });
  }
  std::optional<bool> boolean(std::string_view key) const {
    return read<bool>(key, [](const Json& v) { return v.as_bool(); });
  }
  std::optional<std::string> text(std::string_view key) const {
    return read<std::string>(key, [](const Json& v) { return v.as_string(); });
  }
  // An integer, or the one value that all non-zero entries of a list share.
  std::optional<Index> common_integer(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr || !value->is_array()) return integer(key);
    std::optional<Index> common;
    for (const Json& item : value->items()) {
      if (!item.is_integer()) continue;  // "a" marks attention in zaya_layers
      const Index x = item.as_integer();
      if (x == 0) continue;
      if (common && *common != x) {
        refuse(
            fmt::format("{} has different values ({} and {}); layers of unequal shape are not "
                        "supported",
                        key, *common, x));
      }
      common = x;
    }
    return common;
  }
  // Id, or the first of a list of ids; `fallback` when absent.
  Index token_id(std::string_view key, Index fallback) const {
    const Json* value = find(key);
    if (value == nullptr) return object_.find(key) != nullptr ? -1 : fallback;
    if (value->is_array()) {
      if (value->items().empty()) return -1;
      return value->items()[0].as_integer();
    }
    return *integer(key);
  }

 private:
  template <class T, class Convert>
  std::optional<T> read(std::string_view key, Convert convert) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    try {
      return convert(*value);
    } catch (const Error& error) {
      refuse(fmt::format("{}: {}", key, error.message()));
    }
  }

  const Json& object_;
  std::string where_;
};

constexpr std::array kLegacyMarkers = {"cca", "zaya_layers", "ffn_hidden_size",
                                       "zaya_mlp_expansion", "num_query_groups"};

// What both dialects share.
void read_common(const Reader& r, ModelConfig& c) {
  c.vocab_size = r.integer("vocab_size").value_or(c.vocab_size);
  c.hidden_size = r.integer("hidden_size").value_or(c.hidden_size);
  c.max_position_embeddings =
      r.integer("max_position_embeddings").value_or(c.max_position_embeddings);
  c.tie_word_embeddings = r.boolean("tie_word_embeddings").value_or(true);
  c.attention_bias = r.boolean("attention_bias").value_or(false);
  c.lm_head_bias = r.boolean("lm_head_bias").value_or(false);
  c.cca_time0 = r.integer("cca_time0").value_or(2);
  c.cca_time1 = r.integer("cca_time1").value_or(2);
  c.initializer_range = r.real("initializer_range").value_or(0.02);
  c.pad_token_id = r.token_id("pad_token_id", 0);
  c.bos_token_id = r.token_id("bos_token_id", 2);
  c.eos_token_id = r.token_id("eos_token_id", 1);
}

void read_rotary(const Reader& r, std::string_view where, ModelConfig& c) {
  const Json* parameters = r.find("rope_parameters");
  if (parameters == nullptr) parameters = r.find("rope_scaling");
  if (parameters == nullptr || !parameters->is_object()) return;
  const auto read = [&](const char* type, double& theta, double& factor) {
    const Json* one = parameters->find(type);
    if (one == nullptr || !one->is_object()) return;  // stray strings are ignored
    const Reader inner(*one, fmt::format("{}: rope_parameters.{}", where, type));
    theta = inner.real("rope_theta").value_or(theta);
    factor = inner.real("partial_rotary_factor").value_or(factor);
    const std::string kind = inner.text("rope_type").value_or("default");
    if (kind != "default") inner.refuse("rope_type " + kind + " is not supported; only default");
  };
  read("hybrid", c.rope_theta, c.partial_rotary_factor);
  read("hybrid_sliding", c.rope_theta_sliding, c.partial_rotary_factor_sliding);
}

void read_native(const Reader& r, std::string_view where, ModelConfig& c) {
  const std::string type = r.text("model_type").value_or("zaya");
  if (type != "zaya") r.refuse("model_type " + type + " is not zaya");
  c.num_hidden_layers = r.integer("num_hidden_layers").value_or(c.num_hidden_layers);
  c.num_attention_heads = r.integer("num_attention_heads").value_or(c.num_attention_heads);
  c.num_key_value_heads = r.integer("num_key_value_heads").value_or(c.num_key_value_heads);
  c.head_dim =
      r.integer("head_dim").value_or(c.hidden_size / std::max<Index>(c.num_attention_heads, 1));
  c.num_experts = r.integer("num_experts").value_or(16);
  c.moe_intermediate_size = r.integer("moe_intermediate_size").value_or(c.moe_intermediate_size);
  c.router_hidden_size = r.integer("router_hidden_size").value_or(256);
  c.rms_norm_eps = r.real("rms_norm_eps").value_or(1e-5);
  c.sliding_window = r.integer("sliding_window").value_or(0);
  if (r.integer("num_experts_per_tok").value_or(1) != 1) {
    r.refuse("num_experts_per_tok must be 1: ZAYA routes each token to one expert");
  }
  if (r.text("hidden_act").value_or("silu") != "silu") r.refuse("hidden_act must be silu");
  if (const Json* types = r.find("layer_types")) {
    for (const Json& item : types->items()) c.layer_types.push_back(item.as_string());
    const bool all_hybrid = std::all_of(c.layer_types.begin(), c.layer_types.end(),
                                        [](const std::string& t) { return t == "hybrid"; });
    if (all_hybrid && static_cast<Index>(c.layer_types.size()) == c.num_hidden_layers) {
      c.layer_types.clear();
    }
  }
  c.skip_output = "zero";
  read_rotary(r, where, c);
}

void read_legacy_windows(const Reader& r, ModelConfig& c) {
  const Json* windows = r.find("swa_layers");
  if (windows == nullptr) return;
  if (!windows->is_array()) r.refuse("swa_layers must be a list");
  // One entry per half-layer, or one per block; 0 = no window.
  const Index count = static_cast<Index>(windows->items().size());
  const Index stride = count == 2 * c.num_hidden_layers ? 2 : 1;
  if (count != stride * c.num_hidden_layers) {
    r.refuse(fmt::format("swa_layers has {} entries for {} blocks", count, c.num_hidden_layers));
  }
  bool has_sliding = false;
  for (Index i = 0; i < c.num_hidden_layers; ++i) {
    const Json& item = windows->items()[i * stride];
    const Index window = item.is_null() || item.is_bool() ? 0 : item.as_integer();
    c.layer_types.push_back(window > 0 ? "hybrid_sliding" : "hybrid");
    if (window <= 0) continue;
    if (window > 1 << 30) r.refuse(fmt::format("swa_layers has a window of {}", window));
    if (has_sliding && c.sliding_window != window + 1) r.refuse("swa_layers has different windows");
    c.sliding_window = window + 1;
    has_sliding = true;
  }
  if (!has_sliding) {
    c.layer_types.clear();
    return;
  }
  c.partial_rotary_factor_sliding = c.partial_rotary_factor;
  c.rope_theta_sliding = r.real("swa_rotary_base").value_or(1e4);
}

void read_legacy(const Reader& r, ModelConfig& c) {
  for (const char* flag :
       {"cca", "zaya_use_eda", "zaya_use_mod", "scale_residual_merge", "gated_linear_unit"}) {
    if (!r.boolean(flag).value_or(true)) r.refuse(std::string(flag) + " must be true");
  }
  if (r.boolean("add_bias_linear").value_or(false)) r.refuse("add_bias_linear must be false");
  if (r.integer("moe_router_topk").value_or(1) != 1) r.refuse("moe_router_topk must be 1");
  const Json* layers = r.find("zaya_layers");
  Index half_layers = r.integer("num_hidden_layers").value_or(0);
  if (layers != nullptr && layers->is_array()) {
    half_layers = static_cast<Index>(layers->items().size());
    for (Index i = 0; i < half_layers; ++i) {
      if (layers->items()[i].is_string() != (i % 2 == 0)) {
        r.refuse("zaya_layers must alternate attention (\"a\") and a number of experts");
      }
    }
  }
  if (half_layers <= 0 || half_layers % 2 != 0) {
    r.refuse(fmt::format("{} half-layers; an even number is expected", half_layers));
  }
  c.num_hidden_layers = half_layers / 2;
  const Index uncompressed = r.integer("num_attention_heads").value_or(8);
  c.num_attention_heads = r.common_integer("cca_num_q_heads").value_or(uncompressed);
  c.num_key_value_heads =
      r.common_integer("num_query_groups_list")
          .value_or(
              r.integer("num_query_groups").value_or(r.integer("num_key_value_heads").value_or(2)));
  c.head_dim =
      r.integer("head_dim")
          .value_or(
              r.integer("kv_channels").value_or(c.hidden_size / std::max<Index>(uncompressed, 1)));
  c.num_experts = r.common_integer("zaya_layers").value_or(r.integer("num_experts").value_or(16));
  c.moe_intermediate_size =
      r.common_integer("ffn_hidden_size_list")
          .value_or(r.common_integer("ffn_hidden_size").value_or(2 * c.moe_intermediate_size)) /
      2;
  c.router_hidden_size = r.common_integer("zaya_mlp_expansion").value_or(256);
  c.rms_norm_eps = r.real("norm_epsilon").value_or(1e-5);
  c.rope_theta = r.real("rope_theta").value_or(c.rope_theta);
  c.partial_rotary_factor = r.real("partial_rotary_factor").value_or(0.5);
  c.skip_output = "identity";
  read_legacy_windows(r, c);
}

}  // namespace

std::string_view name_of(Layout layout) { return layout == Layout::native ? "native" : "legacy"; }

HfConfig parse_hf_config(const Json& file, std::string_view where) {
  const Reader reader(file, where);
  if (!file.is_object()) reader.refuse("not a JSON object");
  HfConfig result;
  const bool is_legacy = std::any_of(kLegacyMarkers.begin(), kLegacyMarkers.end(),
                                     [&](const char* key) { return file.find(key) != nullptr; });
  result.layout = is_legacy ? Layout::legacy : Layout::native;
  read_common(reader, result.model);
  if (is_legacy) {
    read_legacy(reader, result.model);
  } else {
    read_native(reader, where, result.model);
  }
  result.model.router_norm_eps = reader.real("router_norm_eps").value_or(0);
  if (const auto skip_output = reader.text("skip_output")) {
    result.model.skip_output = *skip_output;
    result.states_skip_output = true;
  }
  const FieldList fields = list_fields(result.model);
  for (const Field& field : fields.fields()) field.set(field.value(), where, field.name());
  check_model_config(result.model, where);
  return result;
}

}  // namespace zaya
