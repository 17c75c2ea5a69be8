// SPDX-License-Identifier: Apache-2.0
#include "base/cli.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"

namespace zaya {

struct Command::State {
  std::string name;
  CLI::App app;
  std::vector<std::string> options;

  void add(CLI::Option* option, const std::string& option_name, bool is_required) {
    option->required(is_required);
    if (option_name.starts_with("-")) options.push_back(option_name);
  }
};

Command::Command(std::string name, std::string summary, std::string example)
    : state_(std::make_unique<State>()) {
  CLI::App& app = state_->app;
  app.name("zaya " + name);
  app.description(std::move(summary));
  app.footer("\nExample:\n  " + std::move(example));
  app.set_help_flag("--help", "Shows this text.");
  app.option_defaults()->always_capture_default();
  app.allow_extras(true);
  state_->name = std::move(name);
  state_->options.push_back("--help");
}

Command::~Command() = default;

void Command::flag(const std::string& name, bool& value, const std::string& help) {
  state_->add(state_->app.add_flag(name, value, help), name, false);
}

void Command::option(const std::string& name, std::string& value, const std::string& help,
                     bool is_required) {
  state_->add(state_->app.add_option(name, value, help), name, is_required);
}

void Command::option(const std::string& name, Index& value, const std::string& help) {
  state_->add(state_->app.add_option(name, value, help), name, false);
}

void Command::option(const std::string& name, double& value, const std::string& help) {
  state_->add(state_->app.add_option(name, value, help), name, false);
}

void Command::option(const std::string& name, std::vector<std::string>& values,
                     const std::string& help, bool is_required) {
  state_->add(state_->app.add_option(name, values, help), name, is_required);
}

void Command::choice(const std::string& name, std::string& value, std::vector<std::string> allowed,
                     const std::string& help) {
  CLI::Option* option = state_->app.add_option(name, value, help);
  option->check([name, allowed = std::move(allowed)](const std::string& text) -> std::string {
    if (std::find(allowed.begin(), allowed.end(), text) != allowed.end()) return {};
    std::string list;
    for (const std::string& one : allowed) list += (list.empty() ? "" : ", ") + one;
    return fmt::format("unknown value {}; one of {}{}", text, list, did_you_mean(text, allowed));
  });
  state_->add(option, name, false);
}

void Command::positional(const std::string& name, std::string& value, const std::string& help,
                         bool is_required) {
  state_->add(state_->app.add_option(name, value, help), name, is_required);
}

void Command::positionals(const std::string& name, std::vector<std::string>& values,
                          const std::string& help, bool is_required) {
  state_->add(state_->app.add_option(name, values, help), name, is_required);
}

bool Command::given(const std::string& name) const { return state_->app.count(name) > 0; }

bool Command::parse(std::span<const std::string> arguments) {
  // CLI11 takes the arguments in reverse order.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  const auto refuse = [&](const std::string& problem) {
    std::string line = problem.substr(0, problem.find('\n'));
    throw Error{ErrorKind::usage,
                fmt::format("zaya {0}: {1} (see zaya {0} --help)", state_->name, line)};
  };
  try {
    state_->app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::fputs(state_->app.help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& error) {
    refuse(error.what());
  }
  for (const std::string& extra : state_->app.remaining()) {
    const std::string option = extra.substr(0, extra.find('='));
    if (extra.starts_with("-")) {
      refuse(fmt::format("unknown option {}{}", option, did_you_mean(option, state_->options)));
    }
    refuse(fmt::format("unexpected argument {}", extra));
  }
  return true;
}

}  // namespace zaya
