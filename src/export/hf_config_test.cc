// SPDX-License-Identifier: Apache-2.0
#include "export/hf_config.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/testing.h"
#include "export/hf_names.h"
#include "model/model.h"

namespace zaya {

namespace {

const char* const kFixtures[] = {"zaya/basic",
                                 "zaya/sliding",
                                 "zaya/kernels",
                                 "zaya/bf16",
                                 "zaya-legacy/basic-lists",
                                 "zaya-legacy/sliding-scalar"};

Json fixture_config(const std::string& name) {
  const std::string path = std::string(ZAYA_TEST_DATA) + "/" + name + "/config.json";
  return Json::parse(read_file(path), path);
}

DType dtype_in(const Json& config) {
  const Json* dtype = config.find("dtype");
  return dtype != nullptr && dtype->as_string() == "bfloat16" ? DType::bf16 : DType::f32;
}

// Members of `known` that `config` lacks or states otherwise, apart from those that say nothing
// about the model.
std::vector<std::string> differing_keys(const Json& known, const Json& config) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : known.members()) {
    if (key == "transformers_version") continue;
    const Json* found = config.find(key);
    if (found == nullptr || *found != value) keys.push_back(key);
  }
  return keys;
}

// Parameters, and how many tensors a layout stores.
struct Counts {
  Index parameters = 0, native = 0, legacy = 0;
};

Counts counts_of(const ModelConfig& config) {
  ParamSet params;
  const Model model(config, params);
  Counts counts;
  counts.parameters = params.num_parameters();
  for (const Param& param : params.all()) {
    ++counts.native;
    counts.legacy += static_cast<Index>(stored_tensors(param, Layout::legacy, config).size());
  }
  return counts;
}

}  // namespace

TEST_CASE("a configuration written in either layout reads back as the same model") {
  for (const char* name : kFixtures) {
    const ModelConfig model = parse_hf_config(fixture_config(name), name).model;
    for (const Layout layout : {Layout::native, Layout::legacy}) {
      CAPTURE(name);
      CAPTURE(name_of(layout));
      const HfConfig read = parse_hf_config(to_hf_config(model, layout, DType::f32), "written");
      CHECK(read.layout == layout);
      CHECK(read.model == model);
    }
  }
}

TEST_CASE("a native configuration states each key of the published files with the same value") {
  for (const std::string name : {"zaya/basic", "zaya/sliding", "zaya/kernels", "zaya/bf16"}) {
    CAPTURE(name);
    const Json known = fixture_config(name);
    const Json written =
        to_hf_config(parse_hf_config(known, name).model, Layout::native, dtype_in(known));
    CHECK(differing_keys(known, written).empty());
    CHECK(written.find("skip_output") == nullptr);
    CHECK(written.find("router_norm_eps") == nullptr);
  }
}

TEST_CASE("a legacy configuration states the keys of the scalar dialect with the same values") {
  const std::string name = "zaya-legacy/sliding-scalar";
  const Json known = fixture_config(name);
  const Json written = to_hf_config(parse_hf_config(known, name).model, Layout::legacy, DType::f32);
  // Settings of programs that run the model, which change no result.
  const std::vector<std::string> expected{"activation_func_fp8_input_store",
                                          "bias_activation_fusion", "mamba_cache_dtype"};
  CHECK(differing_keys(known, written) == expected);
}

TEST_CASE("what only zaya knows survives under keys of its own") {
  ModelConfig config = model_preset("tiny");
  config.preset = "";
  config.skip_output = "identity";
  config.router_norm_eps = 1e-6;
  config.eos_token_id = -1;
  config.initializer_range = 0.01;
  const Json native = to_hf_config(config, Layout::native, DType::f32);
  CHECK(native.at("skip_output").as_string() == "identity");
  CHECK(native.at("eos_token_id").is_null());
  CHECK(parse_hf_config(native, "native").states_skip_output);
  CHECK(parse_hf_config(native, "native").model == config);
  const Json legacy = to_hf_config(config, Layout::legacy, DType::f32);
  CHECK(legacy.find("skip_output") == nullptr);
  CHECK(parse_hf_config(legacy, "legacy").model == config);
}

TEST_CASE("a legacy configuration is refused for what it can't say") {
  ModelConfig config = model_preset("tiny");
  config.layer_types = {"hybrid_sliding", "hybrid"};
  config.sliding_window = 5;
  config.partial_rotary_factor_sliding = 1;
  CHECK_NOTHROW(to_hf_config(config, Layout::native, DType::f32));
  const std::string message =
      error_of(ErrorKind::usage, [&] { to_hf_config(config, Layout::legacy, DType::f32); });
  CHECK(message ==
        "the legacy layout can't express partial_rotary_factor_sliding = 1.0; export "
        "with --layout native");
  config.router_kind = "linear";
  CHECK(error_of(ErrorKind::usage, [&] { to_hf_config(config, Layout::native, DType::f32); }) ==
        "the native layout can't express router_kind = \"linear\"; no published layout can");
}

TEST_CASE("presets have the published shapes, sizes and numbers of tensors") {
  const ModelConfig small = model_preset("zaya1-8b"), base = model_preset("zaya1-base"),
                    large = model_preset("zaya1-74b-preview");
  const Counts of_small = counts_of(small), of_base = counts_of(base), of_large = counts_of(large);
  CHECK(of_small.parameters == 8'840'488'784);
  CHECK(of_base.parameters == 8'840'488'784);
  CHECK(of_large.parameters == 74'793'953'144);
  CHECK(of_small.native == 1283);
  CHECK(of_base.legacy == 2483);
  CHECK(of_large.native == 1923);

  const Json published = Json::parse(R"({
    "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 128, "num_experts": 16, "num_experts_per_tok": 1,
    "moe_intermediate_size": 2048, "router_hidden_size": 256, "vocab_size": 262272,
    "sliding_window": null, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05,
    "cca_time0": 2, "cca_time1": 2, "tie_word_embeddings": true, "attention_bias": false,
    "lm_head_bias": false, "bos_token_id": 2, "pad_token_id": 0, "eos_token_id": 106,
    "dtype": "bfloat16", "hidden_act": "silu", "initializer_range": 0.02, "model_type": "zaya",
    "rope_parameters": {"hybrid": {"partial_rotary_factor": 0.5, "rope_theta": 5000000.0,
                                   "rope_type": "default"}}})",
                                     "published 8B");
  CHECK(differing_keys(published, to_hf_config(small, Layout::native, DType::bf16)).empty());
  CHECK(to_hf_config(small, Layout::native, DType::bf16).at("layer_types").items().size() == 40);
}

TEST_CASE("ZAYA1-base differs from 8B, and 74B from both, as published") {
  ModelConfig base = model_preset("zaya1-base");
  CHECK(base.rope_theta == 1e6);
  CHECK(base.max_position_embeddings == 32768);
  CHECK(base.eos_token_id == 1);
  CHECK(base.router_eps() == 1e-6);
  base.rope_theta = 5e6;
  base.max_position_embeddings = 131072;
  base.eos_token_id = 106;
  base.router_norm_eps = 0;
  base.preset = "zaya1-8b";
  CHECK(base == model_preset("zaya1-8b"));

  const ModelConfig large = model_preset("zaya1-74b-preview");
  const Json written = to_hf_config(large, Layout::legacy, DType::bf16);
  CHECK(written.at("hidden_size").as_integer() == 4096);
  CHECK(written.at("num_hidden_layers").as_integer() == 120);
  CHECK(written.at("num_attention_heads").as_integer() == 16);
  CHECK(written.at("num_query_groups").as_integer() == 2);
  CHECK(written.at("num_experts").as_integer() == 24);
  CHECK(written.at("ffn_hidden_size").as_integer() == 8192);
  CHECK(written.at("swa_layers").items()[0].as_integer() == 4096);
  CHECK(written.at("swa_layers").items()[2].as_integer() == 0);
}

}  // namespace zaya
