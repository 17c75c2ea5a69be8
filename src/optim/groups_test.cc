// SPDX-License-Identifier: Apache-2.0
#include "optim/groups.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "model/model.h"

namespace zaya {

namespace {

ModelConfig small_model() {
  ModelConfig c;
  c.vocab_size = 96;
  c.hidden_size = 32;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 8;
  c.num_experts = 4;
  c.moe_intermediate_size = 16;
  c.router_hidden_size = 16;
  c.max_position_embeddings = 64;
  return c;
}

struct Fixture {
  ParamSet params;
  Model model{small_model(), params};

  ParamPlan plan(std::string_view name, const OptimizerConfig& config = {}) const {
    for (const ParamPlan& plan : plan_params(params, config)) {
      if (plan.param->name == name) return plan;
    }
    FAIL("no parameter " << std::string(name));
    return {};
  }
};

}  // namespace

TEST_CASE("matrices of a model go to Muon, tables, convolutions and vectors to AdamW") {
  const Fixture f;
  for (const char* name : {"self_attn.qkv_proj.q_proj.weight", "self_attn.o_proj.weight",
                           "mlp.gate.down_proj.weight", "mlp.gate.router_mlp.fc1.weight"}) {
    const ParamPlan plan = f.plan("model.layers.1." + std::string(name));
    CHECK_MESSAGE(plan.role == OptimizerRole::muon, name);
    CHECK(plan.decays);
    CHECK(plan.matrices == 1);
    CHECK(plan.rows == plan.param->shape[0]);
  }
  for (const char* name : {"self_attn.qkv_proj.conv_qk_depthwise.weight",
                           "self_attn.qkv_proj.conv_qk_grouped.weight"}) {
    CHECK_MESSAGE(f.plan("model.layers.1." + std::string(name)).role == OptimizerRole::adamw, name);
  }
  CHECK(f.plan("model.embed_tokens.weight").role == OptimizerRole::adamw);
  CHECK(f.plan("model.embed_tokens.weight").decays);
  CHECK(f.plan("model.layers.0.mlp.gate.balancing_biases").role == OptimizerRole::none);
  for (const ParamPlan& plan : plan_params(f.params, {})) {
    if (plan.param->shape.rank() == 1 && plan.role != OptimizerRole::none) {
      CHECK_MESSAGE(plan.role == OptimizerRole::adamw, plan.param->name);
      CHECK_MESSAGE(!plan.decays, plan.param->name);
    }
  }
}

TEST_CASE("each expert of a stack is a matrix of its own") {
  const Fixture f;
  const ParamPlan plan = f.plan("model.layers.0.mlp.experts.gate_up_proj");
  CHECK(plan.role == OptimizerRole::muon);
  CHECK(plan.matrices == 4);
  CHECK(plan.rows == 32);
  CHECK(plan.columns == 32);
}

TEST_CASE("with AdamW alone every trained parameter goes there and buffers stay out") {
  const Fixture f;
  OptimizerConfig config;
  config.kind = "adamw";
  for (const ParamPlan& plan : plan_params(f.params, config)) {
    const bool is_buffer = plan.param->rule.role == OptimizerRole::none;
    CHECK((plan.role == OptimizerRole::none) == is_buffer);
    CHECK(plan.role != OptimizerRole::muon);
    CHECK(plan.matrices == 0);
  }
}

TEST_CASE("decay can be extended to vectors but not to buffers") {
  const Fixture f;
  OptimizerConfig config;
  config.decay_vectors = true;
  for (const ParamPlan& plan : plan_params(f.params, config)) {
    CHECK(plan.decays == (plan.role != OptimizerRole::none));
  }
}

TEST_CASE("the printed plan has one line per kind and counts every parameter once") {
  const Fixture f;
  const auto kinds = param_kinds(f.params, {});
  Index count = 0, elements = 0;
  for (const ParamKind& kind : kinds) {
    count += kind.count;
    if (kind.role != OptimizerRole::none) elements += kind.elements;
  }
  CHECK(count == static_cast<Index>(f.params.all().size()));
  CHECK(elements == f.params.num_parameters());
  const auto down = std::find_if(kinds.begin(), kinds.end(), [](const ParamKind& kind) {
    return kind.name == "model.layers.*.mlp.experts.down_proj";
  });
  REQUIRE(down != kinds.end());
  CHECK(down->count == 3);
  const std::string text = kinds_as_text(kinds);
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  CHECK(lines == kinds.size() + 4);  // header, and one total per role
  CHECK(text.find("model.layers.*.mlp.experts.gate_up_proj") != std::string::npos);
  CHECK(text.find("model.layers.1.") == std::string::npos);
}

}  // namespace zaya
