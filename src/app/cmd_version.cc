// SPDX-License-Identifier: Apache-2.0
//
// `zaya --version`.
#include <fmt/core.h>

#include <cstdio>

#include "app/build_info.h"
#include "app/commands.h"

namespace zaya {

int command_version(Arguments) {
  std::fputs(fmt::format("zaya {} (commit {}, {})\n", kVersion, kCommit, kCompiler).c_str(),
             stdout);
  return 0;
}

}  // namespace zaya
