// SPDX-License-Identifier: Apache-2.0
#include "train/config.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "train/metrics.h"
#include "train/start.h"
#include "train/state.h"

namespace zaya {

namespace {

ModelConfig no_folder(const std::string&) { return {}; }

struct TempFile {
  explicit TempFile(const std::string& content)
      : path("/tmp/zaya-config-test-" + std::to_string(getpid())) {
    FileWriter writer(path);
    writer.write(content);
    writer.close();
  }
  ~TempFile() { remove_all(path); }
  std::string path;
};

TrainConfig read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const TempFile file(text);
  return read_train_config(file.path, overrides, no_folder);
}

std::string problem(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    check_train_config(read(text, overrides));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    return error.message();
  }
  return "";
}

const char* kBase = R"([run]
directory = "r"
[model]
preset = "tiny"
[data]
train = ["a"]
[[phase]]
tokens = 1000
sequence_length = 8
batch_tokens = 64
)";

}  // namespace

TEST_CASE("a configuration survives being written out and read again") {
  const TrainConfig config =
      read(kBase, {"phase.0.tokens=2000", "phase.1.tokens=5", "optimizer.kind=adamw",
                   "model.num_experts=7", "data.weights=[1.5]", "run.seed=9"});
  CHECK(config.phases.size() == 2);
  CHECK(config.phases[0].tokens == 2000);
  CHECK(config.model.num_experts == 7);
  CHECK(config.model.hidden_size == 32);
  const TrainConfig again = read(to_toml(config));
  CHECK(to_toml(again) == to_toml(config));
  CHECK(mathematical_keys(again) == mathematical_keys(config));
}

TEST_CASE("keys that change no mathematics stay out of the digest") {
  const Json keys = mathematical_keys(read(kBase));
  for (const char* key :
       {"run.threads", "run.directory", "run.instruction_set", "run.stop_after_steps",
        "checkpoint.every_steps", "data.train", "metrics.sample_every_steps", "run.recompute"}) {
    CHECK(keys.find(key) == nullptr);
  }
  for (const char* key : {"run.seed", "run.numerics", "model.hidden_size", "phase.0.tokens",
                          "optimizer.learning_rate", "parallel.lanes", "data.document_isolation"}) {
    CHECK(keys.find(key) != nullptr);
  }
}

TEST_CASE("what can't work is refused with key and rule") {
  CHECK(problem(kBase).empty());
  CHECK(problem(kBase, {"phase.0.batch_tokens=60"}).find("multiple of sequence_length") !=
        std::string::npos);
  CHECK(problem(kBase, {"parallel.lanes=3"}).find("multiple of") != std::string::npos);
  CHECK(problem(kBase, {"phase.0.sequence_length=100000"}).find("phase.0") != std::string::npos);
  CHECK(problem(kBase, {"data.split=[9, 1]"}).find("data.order = megatron") != std::string::npos);
  CHECK(problem(kBase, {"data.split=[0, 1]", "data.order=megatron"}).find("must be above 0") !=
        std::string::npos);
  CHECK(problem(kBase, {"data.split=[9, 1]", "data.order=megatron"}).empty());
  CHECK(problem(kBase, {"phase.3.tokens=1"}).find("there are 1 phases") != std::string::npos);
  CHECK(problem(kBase, {"model.preset=tinny"}).find("did you mean tiny") != std::string::npos);
  CHECK(problem(kBase, {"optimizer.knd=adamw"}).find("did you mean optimizer.kind") !=
        std::string::npos);
  CHECK(problem(kBase, {"model.hidden_size=16777216", "model.moe_intermediate_size=16777216",
                        "model.num_experts=16384"})
            .find("parameters") != std::string::npos);
  CHECK(problem("[run]\ndirectory = 3\n").find(":2: run.directory") != std::string::npos);
  CHECK(problem("[runn]\n").find("unknown section [runn]; did you mean run?") != std::string::npos);
}

TEST_CASE("the schedule follows tokens, not steps or the stop point") {
  const TrainConfig config = read(kBase, {"phase.0.warmup_tokens=100"});
  const TrainConfig stopped = read(kBase, {"phase.0.warmup_tokens=100", "run.stop_after_steps=3"});
  const TrainConfig larger = read(kBase, {"phase.0.warmup_tokens=100", "phase.0.batch_tokens=128"});
  for (const Index tokens : {1, 50, 100, 101, 500, 1000, 5000}) {
    const double rate = learning_rate_at(schedule_of(config.phases[0], config.optimizer), tokens);
    CHECK(rate == learning_rate_at(schedule_of(stopped.phases[0], stopped.optimizer), tokens));
    CHECK(rate == learning_rate_at(schedule_of(larger.phases[0], larger.optimizer), tokens));
  }
}

TEST_CASE("a checkpoint older than an option continues as long as the option has its default") {
  const Json keys = mathematical_keys(read(kBase));
  Json old = Json::object();
  for (const auto& [key, value] : keys.members()) {
    if (key != "data.split" && key != "phase.0.schedule") old.set(key, value);
  }
  check_same_keys(old, keys, "checkpoint", false);
  const Json set = mathematical_keys(read(kBase, {"data.split=[9, 1]", "data.order=megatron"}));
  CHECK_THROWS_AS(check_same_keys(old, set, "checkpoint", false), Error);
  const Json linear = mathematical_keys(read(kBase, {"phase.0.schedule=linear"}));
  CHECK_THROWS_AS(check_same_keys(old, linear, "checkpoint", false), Error);
}

TEST_CASE("loading a state and saving it gives the same text") {
  TrainState state;
  state.step = 12;
  state.tokens = 3456;
  state.skipped_tokens = 7;
  state.phase = 1;
  state.phase_samples = 99;
  CHECK(TrainState::from_json(state.to_json()) == state);
  CHECK(TrainState::from_json(Json::parse(state.to_json().dump(), "t")).to_json() ==
        state.to_json());
  Json missing = state.to_json();
  missing.members().pop_back();
  CHECK_THROWS_AS(TrainState::from_json(missing), Error);
}

TEST_CASE("metrics are cut to the checkpoint's step, torn lines included") {
  const std::string path = "/tmp/zaya-metrics-test-" + std::to_string(getpid());
  const auto write = [&](const std::string& text) {
    FileWriter writer(path);
    writer.write(text);
    writer.close();
  };
  write("{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"step\":4,\"lo");
  CHECK(last_metrics_step(path) == 3);
  {
    MetricsFile file(path, 2);
    StepMetrics metrics;
    metrics.step = 3;
    file.write(metrics);
  }
  CHECK(last_metrics_step(path) == 3);
  const std::string text = read_file(path);
  CHECK(text.starts_with("{\"step\":1}\n{\"step\":2}\n{\"step\":3,"));
  write("{\"step\":1}\n{\"step\":3}\n");
  CHECK_THROWS_AS(MetricsFile(path, 9), Error);
  remove_all(path);
}

TEST_CASE("every recipe in configs/ is valid, and those of published models have their shapes") {
  const std::string folder = std::string(ZAYA_TEST_DATA) + "/../../configs";
  Index num_published = 0;
  for (const std::string& name : list_directory(folder)) {
    CAPTURE(name);
    const TrainConfig config = read_train_config(join_path(folder, name), {}, no_folder);
    CHECK_NOTHROW(check_train_config(config));
    if (!name.starts_with("zaya1-")) continue;
    ++num_published;
    CHECK(config.model == model_preset(name.substr(0, name.size() - std::string(".toml").size())));
  }
  CHECK(num_published == 3);
}

}  // namespace zaya
