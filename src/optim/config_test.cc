// SPDX-License-Identifier: Apache-2.0
#include "optim/config.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/toml.h"

namespace zaya {

namespace {

std::string message_of(const char* text) {
  OptimizerConfig config;
  try {
    list_fields(config).read(parse_toml(text, "test.toml"), "test.toml", "optimizer");
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("the defaults are the recipe's") {
  const OptimizerConfig c;
  CHECK(c.kind == "muon");
  CHECK(c.muon_momentum == 0.95);
  CHECK(c.muon_nesterov);
  CHECK(c.muon_steps == 5);
  CHECK(c.muon_coefficients == "keller");
  CHECK(c.weight_decay == 0.1);
  CHECK_FALSE(c.decay_vectors);
  CHECK(c.balancing_rate == 1e-3);
  CHECK_FALSE(c.balancing_includes_skip);
}

TEST_CASE("what the field list writes it reads back") {
  OptimizerConfig from;
  from.kind = "adamw";
  from.beta2 = 0.99;
  from.muon_coefficients = "quintic";
  from.balancing_adaptation = 0;
  OptimizerConfig to;
  list_fields(to).read(parse_toml(list_fields(from).to_toml(), "t"), "t", "optimizer");
  CHECK(from == to);
}

TEST_CASE("values out of range and unknown names are refused with the key") {
  CHECK(message_of("kind = 'sgd'").find("optimizer.kind") != std::string::npos);
  CHECK(message_of("beta1 = 1.0").find("optimizer.beta1") != std::string::npos);
  CHECK(message_of("muon_steps = 0").find("optimizer.muon_steps") != std::string::npos);
  CHECK(message_of("learning_rat = 1.0").find("learning_rate") != std::string::npos);
}

TEST_CASE("every option changes the digest of a run") {
  OptimizerConfig config;
  const FieldList fields = list_fields(config);
  for (const Field& field : fields.fields()) CHECK_FALSE(field.is_cosmetic());
}

TEST_CASE("bf16 products in an f32 run are refused before anything is allocated") {
  OptimizerConfig config;
  config.muon_dtype = "bf16";
  CHECK_THROWS_AS(check_optimizer_config(config, Numerics::f32, "t"), Error);
  CHECK_NOTHROW(check_optimizer_config(config, Numerics::bf16, "t"));
  config.kind = "adamw";
  CHECK_NOTHROW(check_optimizer_config(config, Numerics::f32, "t"));
}

}  // namespace zaya
