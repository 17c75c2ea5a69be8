// SPDX-License-Identifier: Apache-2.0
#include "export/hf_names.h"

#include <fmt/core.h>

#include <array>
#include <string_view>
#include <utility>

namespace zaya {

namespace {

using Pair = std::pair<std::string_view, std::string_view>;

// Suffixes inside a half-layer: native, legacy.
constexpr std::array kAttention = {
    Pair{"self_attn.qkv_proj.q_proj.", "self_attn.qkv.linear_q."},
    Pair{"self_attn.qkv_proj.k_proj.", "self_attn.qkv.linear_k."},
    Pair{"self_attn.qkv_proj.v_proj_current.", "self_attn.qkv.val_proj1."},
    Pair{"self_attn.qkv_proj.v_proj_delayed.", "self_attn.qkv.val_proj2."},
    Pair{"self_attn.qkv_proj.conv_qk_depthwise.", "self_attn.qkv.conv_qk.0."},
    Pair{"self_attn.qkv_proj.conv_qk_grouped.", "self_attn.qkv.conv_qk.1."},
    Pair{"self_attn.qk_norm.temp", "self_attn.qkv.temp"},
    Pair{"self_attn.o_proj.", "self_attn.o_proj."},
    Pair{"input_layernorm.", "input_norm."},
};
constexpr std::array kExperts = {
    Pair{"mlp.gate.router_mlp.norm.", "zaya_block.router.rmsnorm_eda."},
    Pair{"mlp.gate.router_mlp.fc1.", "zaya_block.router.router_mlp.0."},
    Pair{"mlp.gate.router_mlp.fc2.", "zaya_block.router.router_mlp.2."},
    Pair{"mlp.gate.router_mlp.out_proj.", "zaya_block.router.router_mlp.4."},
    Pair{"mlp.gate.", "zaya_block.router."},
    Pair{"post_attention_layernorm.", "input_norm."},
};

// Legacy name inside block `block` of L, for tensors that are stored whole.
std::string legacy_block_name(std::string_view rest, Index block, Index num_blocks) {
  constexpr std::string_view kAfterAttention = "post_attention_residual_scale.";
  constexpr std::string_view kAfterExperts = "post_mlp_residual_scale.";
  if (rest.starts_with(kAfterAttention)) {
    return fmt::format("model.layers.{}.res_scale.{}", 2 * block + 1,
                       rest.substr(kAfterAttention.size()));
  }
  if (rest.starts_with(kAfterExperts)) {
    const std::string_view vector = rest.substr(kAfterExperts.size());
    if (block + 1 == num_blocks) return fmt::format("model.res_scale.{}", vector);
    return fmt::format("model.layers.{}.res_scale.{}", 2 * block + 2, vector);
  }
  for (const auto& [native, legacy] : kAttention) {
    if (rest.starts_with(native)) {
      return fmt::format("model.layers.{}.{}{}", 2 * block, legacy, rest.substr(native.size()));
    }
  }
  for (const auto& [native, legacy] : kExperts) {
    if (rest.starts_with(native)) {
      return fmt::format("model.layers.{}.{}{}", 2 * block + 1, legacy, rest.substr(native.size()));
    }
  }
  ZAYA_CHECK(false, std::string(rest));
  return {};
}

std::string legacy_global_name(const std::string& name) {
  if (name == "model.norm.weight") return "model.final_norm.weight";
  if (name == "model.input_hidden_states_scale") {
    return "model.layers.0.res_scale.hidden_states_scale";
  }
  if (name == "model.input_hidden_states_bias") {
    return "model.layers.0.res_scale.hidden_states_bias";
  }
  return name;
}

}  // namespace

std::vector<FolderTensor> stored_tensors(const Param& param, Layout layout,
                                         const ModelConfig& config) {
  constexpr std::string_view kLayers = "model.layers.";
  if (layout == Layout::native) return {{param.name, -1, param.shape}};
  const std::string_view name = param.name;
  if (!name.starts_with(kLayers)) return {{legacy_global_name(param.name), -1, param.shape}};
  const std::size_t dot = name.find('.', kLayers.size());
  const Index block = std::stol(std::string(name.substr(kLayers.size(), dot - kLayers.size())));
  const std::string_view rest = name.substr(dot + 1);
  const bool is_gate_up = rest == "mlp.experts.gate_up_proj";
  if (!is_gate_up && rest != "mlp.experts.down_proj") {
    return {{legacy_block_name(rest, block, config.num_hidden_layers), -1, param.shape}};
  }
  std::vector<FolderTensor> experts;
  for (Index e = 0; e < config.num_experts; ++e) {
    experts.push_back({fmt::format("model.layers.{}.zaya_block.experts.local_experts.{}.linear_fc{}"
                                   ".weight",
                                   2 * block + 1, e, is_gate_up ? 1 : 2),
                       e, Shape(param.shape.dims().subspan(1))});
  }
  return experts;
}

}  // namespace zaya
