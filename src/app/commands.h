// SPDX-License-Identifier: Apache-2.0
//
// One function per sub-command: parse, call one function, report. The arguments exclude the name of
// the command. The result is the exit code; failures are thrown as Error.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace zaya {

using Arguments = std::span<const std::string>;

int command_bench(Arguments arguments);
int command_checkpoint(Arguments arguments);
int command_dataset(Arguments arguments);
int command_eval(Arguments arguments);
int command_export(Arguments arguments);
int command_generate(Arguments arguments);
int command_prepare(Arguments arguments);
int command_score(Arguments arguments);
int command_tokenizer(Arguments arguments);
int command_train(Arguments arguments);
int command_version(Arguments arguments);

struct CommandEntry {
  std::string_view name;     // "train"
  std::string_view summary;  // one line for `zaya --help`
  int (*run)(Arguments);
};

// All sub-commands in the order of `zaya --help`.
std::span<const CommandEntry> all_commands();

}  // namespace zaya
