// SPDX-License-Identifier: Apache-2.0
//
// What tests share: the instruction set asked for, and folders to write into.
#pragma once

#include <string>

namespace zaya {

// Name given by --instruction-set=NAME, "auto" by default.
std::string& test_instruction_set();

}  // namespace zaya
