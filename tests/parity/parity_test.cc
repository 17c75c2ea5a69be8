// SPDX-License-Identifier: Apache-2.0
//
// The model against values that the published code computed: loss, logits, hidden states, routes,
// gradients, greedy continuations, decode state, and losses over AdamW steps.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <cstring>

#include "base/file.h"
#include "eval/generate.h"
#include "optim/optimizer.h"
#include "parity/fixture.h"

namespace zaya {

namespace {

constexpr double kValueBound = 2e-5, kGradientBound = 5e-5;

std::vector<double> dumped(const ScoreResult& result, const std::string& name) {
  for (const NamedOutput& output : result.dump) {
    if (output.name != name) continue;
    if (!output.integers.empty()) return {output.integers.begin(), output.integers.end()};
    return {output.values.begin(), output.values.end()};
  }
  FAIL("no output ", name);
  return {};
}

std::vector<std::int32_t> ids_of(const Json& list) {
  std::vector<std::int32_t> ids;
  for (const Json& id : list.items()) ids.push_back(static_cast<std::int32_t>(id.as_integer()));
  return ids;
}

void check_values(const ScoreResult& result, const SafetensorsFile& expected,
                  const std::vector<std::uint8_t>& mask, const std::string& suffix) {
  const double loss = stored_values(expected.tensor("loss" + suffix))[0];
  CHECK(std::abs(result.loss - loss) <= kValueBound * std::abs(loss));
  CHECK(relative_error(dumped(result, "logits"), stored_values(expected.tensor("logits" + suffix)),
                       mask) <= kValueBound);
  for (const SafetensorsEntry& entry : expected.entries()) {
    const std::string& name = entry.spec.name;
    CAPTURE(name);
    const bool is_choice = name.starts_with("router.") && name.ends_with(".choice");
    const bool is_value = name.starts_with("hidden.") ||
                          (name.starts_with("router.") && name.ends_with(".probs")) ||
                          (name.starts_with("router.") && name.ends_with(".weight"));
    if (!is_choice && !is_value) continue;
    const double error =
        relative_error(dumped(result, name), stored_values(expected.tensor(entry)), mask);
    CHECK(error <= (is_choice ? 0 : kValueBound));
  }
}

}  // namespace

TEST_CASE("loss, logits, hidden states, routes and gradients equal the published code's") {
  for (const bool uses_reference : {true, false}) {
    for (const std::string& name : fixture_names("zaya")) {
      CAPTURE(name);
      CAPTURE(uses_reference);
      FixtureModel model(fixture_path("zaya", name), uses_reference);
      const ScoreInput input = model.inputs();
      ScoreOptions options;
      options.wants_dump = true;
      const ScoreResult result =
          score(*model.open.model, model.backend, input, options, &model.gradients);
      check_values(result, SafetensorsFile(model.folder + "/expected.safetensors"), input.mask, "");
      const SafetensorsFile expected(model.folder + "/grads.safetensors");
      for (const SafetensorsEntry& entry : expected.entries()) {
        CAPTURE(entry.spec.name);
        const Param* param = model.open.params->find(entry.spec.name);
        REQUIRE(param != nullptr);
        std::vector<double> gradient;
        for (const float x : model.gradients.of(*param).as<float, 1>()) gradient.push_back(x);
        CHECK(relative_error(gradient, stored_values(expected.tensor(entry)), {}) <=
              kGradientBound);
      }
    }
  }
}

TEST_CASE("legacy folders give the same tensors and both meanings of skip") {
  for (const std::string& name : fixture_names("zaya-legacy")) {
    CAPTURE(name);
    FixtureModel model(fixture_path("zaya-legacy", name), false);
    CHECK(model.open.layout == Layout::legacy);
    CHECK(model.open.config.skip_output == "identity");
    const SafetensorsFile expected(model.folder + "/expected.safetensors");
    for (const bool is_identity : {false, true}) {
      ScoreOptions options;
      options.wants_dump = true;
      options.skip_is_identity = is_identity;
      const ScoreInput input = model.inputs();
      const ScoreResult result = score(*model.open.model, model.backend, input, options, nullptr);
      const std::string suffix = is_identity ? "_skip_identity" : "";
      const double loss = stored_values(expected.tensor("loss" + suffix))[0];
      CHECK(std::abs(result.loss - loss) <= kValueBound * std::abs(loss));
      CHECK(relative_error(dumped(result, "logits"),
                           stored_values(expected.tensor("logits" + suffix)),
                           input.mask) <= kValueBound);
    }
  }
}

TEST_CASE("greedy continuations equal the published code's") {
  for (const std::string& name : fixture_names("zaya")) {
    CAPTURE(name);
    FixtureModel model(fixture_path("zaya", name), false);
    const Json expected = model.json("generate.json");
    GenerateOptions options;
    options.sampler.temperature = 0;
    options.max_new_tokens = expected.at("new_tokens").as_integer();
    const auto ignore = [](Index, std::int32_t) { return true; };
    for (const Json& single : expected.at("single").items()) {
      const Prompt prompt{ids_of(single.at("prompt")), 0};
      Generator generator(*model.open.model, model.backend, 1, 64);
      CHECK(generator.generate({&prompt, 1}, options, ignore)[0] ==
            ids_of(single.at("continuation")));
    }
    // The same prompts together, with left padding as the published batch has it.
    const Json& batch = expected.at("batch");
    std::vector<Prompt> prompts;
    for (std::size_t i = 0; i < batch.at("input_ids").items().size(); ++i) {
      Prompt& prompt = prompts.emplace_back();
      prompt.ids = ids_of(batch.at("input_ids").items()[i]);
      for (const Json& m : batch.at("attention_mask").items()[i].items()) {
        prompt.left_padding += m.as_integer() == 0;
      }
    }
    Generator generator(*model.open.model, model.backend, static_cast<Index>(prompts.size()), 64);
    const auto results = generator.generate(prompts, options, ignore);
    for (std::size_t i = 0; i < results.size(); ++i) {
      CHECK(results[i] == ids_of(batch.at("continuation").items()[i]));
    }
  }
}

TEST_CASE("a continuation ends with the token that ends texts") {
  for (const std::string& name : fixture_names("zaya")) {
    CAPTURE(name);
    FixtureModel model(fixture_path("zaya", name), false);
    const Json stop = model.json("generate.json").at("stop");
    GenerateOptions options;
    options.sampler.temperature = 0;
    options.max_new_tokens = 64;
    options.stop_ids = {static_cast<std::int32_t>(stop.at("eos_token_id").as_integer())};
    const Prompt prompt{ids_of(stop.at("prompt")), 0};
    Generator generator(*model.open.model, model.backend, 1, 96);
    const auto ignore = [](Index, std::int32_t) { return true; };
    CHECK(generator.generate({&prompt, 1}, options, ignore)[0] ==
          ids_of(stop.at("continuation_including_stop")));
  }
}

TEST_CASE("the decode state equals the published cache") {
  for (const std::string& name : fixture_names("zaya")) {
    CAPTURE(name);
    FixtureModel model(fixture_path("zaya", name), false);
    const ModelConfig& c = model.open.config;
    const Json single = model.json("generate.json").at("single").items()[2];
    const std::vector<std::int32_t> prompt = ids_of(single.at("prompt"));
    const std::vector<std::int32_t> next = ids_of(single.at("continuation"));
    const SafetensorsFile expected(model.folder + "/cache.safetensors");
    Generator generator(*model.open.model, model.backend, 2, 32);
    generator.feed(1, prompt, {});
    const auto check_stage = [&](const std::string& stage) {
      for (Index layer = 0; layer < c.num_hidden_layers; ++layer) {
        const DecodeState::Block& block = generator.state().block(layer);
        const std::string prefix = fmt::format("{}.{}.", stage, layer);
        for (const SafetensorsEntry& entry : expected.entries()) {
          if (!entry.spec.name.starts_with(prefix)) continue;
          CAPTURE(entry.spec.name);
          const std::string part = entry.spec.name.substr(prefix.size());
          const std::vector<double> want = stored_values(expected.tensor(entry));
          std::vector<double> got;
          const Index length = generator.state().length(1);
          if (part == "keys" || part == "values") {
            // Published order [1, K, t, d]; only the newest t are kept by sliding blocks.
            const auto rows = (part == "keys" ? block.keys : block.values).as<float, 3>();
            const Index kept = static_cast<Index>(entry.spec.shape[entry.spec.shape.size() - 2]);
            for (Index h = 0; h < c.num_key_value_heads; ++h) {
              for (Index t = length - kept; t < length; ++t) {
                for (Index d = 0; d < c.head_dim; ++d) got.push_back(rows[32 + t][h][d]);
              }
            }
          } else if (part.find("conv") != std::string::npos) {
            const auto columns = block.columns.as<float, 3>();
            for (Index w = 0; w < c.conv_channels(); ++w) {
              for (Index j = 0; j < columns.dim(1); ++j) got.push_back(columns[1][j][w]);
            }
          } else {
            for (const float x : block.delayed[1].as<float, 1>()) got.push_back(x);
          }
          CHECK(relative_error(got, want, {}) <= kValueBound);
        }
      }
    };
    check_stage("prefill");
    generator.feed(1, std::span(next).first(1), {});
    generator.feed(1, std::span(next).subspan(1, 1), {});
    check_stage("step2");
  }
}

TEST_CASE("losses over eight AdamW steps equal the published code's") {
  for (const std::string& name : fixture_names("zaya")) {
    CAPTURE(name);
    FixtureModel model(fixture_path("zaya", name), false);
    ParamSet& params = *model.open.params;
    // The reference run decays every parameter and keeps the balancing biases.
    for (Param& param : params.all()) {
      if (param.rule.role != OptimizerRole::none) param.rule.decays = true;
    }
    const Json expected = model.json("train.json");
    OptimizerConfig config;
    config.kind = "adamw";
    config.beta1 = expected.at("betas").items()[0].as_real();
    config.beta2 = expected.at("betas").items()[1].as_real();
    config.eps = expected.at("eps").as_real();
    config.weight_decay = expected.at("weight_decay").as_real();
    Arena arena("optimizer", Index{64} << 20), scratch("scratch", Index{64} << 20);
    Optimizer optimizer(params, config, model.backend, arena);
    const ScoreInput input = model.inputs();
    Index step = 0;
    for (const Json& loss : expected.at("losses_before_each_step").items()) {
      model.backend.move->zero(model.gradients.flat());
      const ScoreResult result =
          score(*model.open.model, model.backend, input, {}, &model.gradients);
      CHECK(std::abs(result.loss - loss.as_real()) <= 1e-4);
      optimizer.step(model.backend, scratch, model.gradients, 1, expected.at("lr").as_real(),
                     ++step);
    }
  }
}

}  // namespace zaya
