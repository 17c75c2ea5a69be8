// SPDX-License-Identifier: Apache-2.0
//
// `zaya train`: trains or continues; --plan prints what a run would need and stops.
#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <vector>

#include "app/commands.h"
#include "base/cli.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "export/model_folder.h"
#include "plan/train_plan.h"
#include "train/trainer.h"

namespace zaya {

namespace {

// Splits "section.key=value" overrides from the one positional argument, the configuration file.
std::string take_config_path(std::vector<std::string>& words) {
  std::string path;
  std::vector<std::string> overrides;
  for (const std::string& word : words) {
    if (word.find('=') != std::string::npos) {
      overrides.push_back(word);
    } else if (path.empty()) {
      path = word;
    } else {
      throw Error{ErrorKind::usage,
                  fmt::format("zaya train: two configuration files, {} and {}", path, word)};
    }
  }
  words = overrides;
  return path;
}

// What a run with model.from takes the skip class to mean, and why.
void log_start(const TrainConfig& config) {
  const ModelOrigin source = find_model(config.source.from);
  const bool is_own = config.model.skip_output != source.config.skip_output;
  log_info(fmt::format("model.from {}: skip class gives {} ({})", source.path,
                       config.model.skip_output,
                       is_own ? "model.skip_output of this run" : source.skip_reason));
}

}  // namespace

int command_train(Arguments arguments) {
  std::vector<std::string> words;
  std::string resume = "auto";
  Index metrics_port = 0;
  bool is_plan = false, is_options = false, accepts_changes = false, is_json = false;
  Command command(
      "train", "Trains a model, or continues a run.",
      "zaya train configs/quickstart.toml run.directory=runs/first phase.0.tokens=500000");
  command.positionals("CONFIG.toml section.key=value", words,
                      "Configuration file, then options that override it.", false);
  command.option("--resume", resume,
                 "auto: continue if there is a checkpoint; never: start from zero; or a path.");
  command.flag("--plan", is_plan, "Prints memory, parameter groups and time, and stops.");
  command.flag("--json", is_json, "With --plan: as JSON.");
  command.flag("--accept-changes", accepts_changes,
               "Continue although keys that change the mathematics differ; each is logged.");
  command.option("--metrics-port", metrics_port,
                 "Serve figures to Prometheus at this port (metrics.port); 0: any free one.");
  command.flag("--options", is_options, "Prints the reference of all options and stops.");
  if (!command.parse(arguments)) return 0;
  if (is_options) {
    std::fputs(options_as_markdown().c_str(), stdout);
    return 0;
  }
  const std::string path = take_config_path(words);
  if (path.empty()) {
    throw Error{ErrorKind::usage, "zaya train: no configuration file (see zaya train --help)"};
  }
  if (command.given("--metrics-port"))
    words.push_back(fmt::format("metrics.port={}", metrics_port));
  TrainRequest request;
  request.config = read_train_config(path, words, model_config_of_folder);
  if (is_plan) {
    std::fputs(train_plan(request.config, is_json).c_str(), stdout);
    return 0;
  }
  request.resume = parse_resume(resume);
  request.accepts_changes = accepts_changes;
  if (!request.config.source.from.empty()) {
    log_start(request.config);
    request.load_weights = load_weights_of_folder;
  }
  const int signal = train(request);
  return signal > 0 ? 128 + signal : 0;
}

}  // namespace zaya
