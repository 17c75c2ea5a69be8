// SPDX-License-Identifier: Apache-2.0
//
// Command lines: one Command per sub-command, long options only. Unknown options are errors that
// name the nearest valid one. Built on CLI11, which stays in cli.cc.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"

namespace zaya {

class Command {
 public:
  // `name` as typed after "zaya" ("tokenizer train"); `example` is shown by --help.
  Command(std::string name, std::string summary, std::string example);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Options are named with their dashes ("--output"). The value given here before parse() is the
  // default and is shown by --help.
  void flag(const std::string& name, bool& value, const std::string& help);
  void option(const std::string& name, std::string& value, const std::string& help,
              bool is_required = false);
  void option(const std::string& name, Index& value, const std::string& help);
  void option(const std::string& name, double& value, const std::string& help);
  // Given several times, or followed by several values.
  void option(const std::string& name, std::vector<std::string>& values, const std::string& help,
              bool is_required = false);
  void choice(const std::string& name, std::string& value, std::vector<std::string> allowed,
              const std::string& help);
  void positional(const std::string& name, std::string& value, const std::string& help,
                  bool is_required = true);
  void positionals(const std::string& name, std::vector<std::string>& values,
                   const std::string& help, bool is_required = true);
  // Was this option or positional given?
  bool given(const std::string& name) const;

  // False when help was asked for and printed on stdout. Throws Error{usage}.
  bool parse(std::span<const std::string> arguments);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zaya
