// SPDX-License-Identifier: Apache-2.0
//
// main() of every test program. One option of our own: --instruction-set=NAME forces the kernels'
// instruction set for the whole program (oneDNN can be limited only once per process).
#define DOCTEST_CONFIG_IMPLEMENT
#include "test_main.h"

#include <doctest/doctest.h>

#include <string_view>

namespace zaya {

std::string& test_instruction_set() {
  static std::string name = "auto";
  return name;
}

}  // namespace zaya

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    constexpr std::string_view kOption = "--instruction-set=";
    const std::string_view argument = argv[i];
    if (argument.starts_with(kOption))
      zaya::test_instruction_set() = argument.substr(kOption.size());
  }
  doctest::Context context(argc, argv);
  return context.run();
}
