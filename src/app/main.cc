// SPDX-License-Identifier: Apache-2.0
//
// The program's entry: picks the sub-command, turns errors into one line and an exit code.
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "app/commands.h"
#include "base/error.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/stop.h"

namespace zaya {

namespace {

void print_help() {
  std::string text =
      "zaya: trains and runs mixture-of-experts language models of the ZAYA1 family\n\n"
      "usage: zaya COMMAND [options]      (zaya COMMAND --help explains one)\n\ncommands:\n";
  for (const CommandEntry& entry : all_commands()) {
    text += fmt::format("  {:<12} {}\n", entry.name, entry.summary);
  }
  std::fputs(text.c_str(), stdout);
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "help") {
    print_help();
    return arguments.empty() ? 2 : 0;
  }
  const std::string name = arguments[0] == "--version" ? "version" : arguments[0];
  std::vector<std::string> names;
  for (const CommandEntry& entry : all_commands()) {
    if (entry.name == name) return entry.run(Arguments(arguments).subspan(1));
    names.emplace_back(entry.name);
  }
  throw Error{ErrorKind::usage, fmt::format("unknown command {}{} (see zaya --help)", name,
                                            did_you_mean(name, names))};
}

int guarded_run(const std::vector<std::string>& arguments) {
  try {
    const int code = run(arguments);
    if (std::fflush(stdout) != 0) {
      throw Error{ErrorKind::hardware, "can't write to standard output: is its disk full?"};
    }
    return code;
  } catch (const Error& error) {
    log_error(error.message());
    return exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    log_error("out of memory: give the process more memory or make the model or batch smaller");
    return exit_code(ErrorKind::hardware);
  } catch (const std::exception& error) {
    log_error(fmt::format("unexpected failure: {}", error.what()));
    return exit_code(ErrorKind::hardware);
  }
}

}  // namespace

}  // namespace zaya

int main(int argc, char** argv) {
  zaya::install_stop_handlers();
  return zaya::guarded_run(std::vector<std::string>(argv + 1, argv + argc));
}
