// SPDX-License-Identifier: Apache-2.0
#include "app/commands.h"

namespace zaya {

std::span<const CommandEntry> all_commands() {
  static constexpr CommandEntry kCommands[] = {
      {"version", "version, commit, compiler, backends, instruction set", command_version},
  };
  return kCommands;
}

}  // namespace zaya
