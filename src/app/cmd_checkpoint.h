// SPDX-License-Identifier: Apache-2.0
//
// The sub-commands of `zaya checkpoint` that stand in files of their own.
#pragma once

#include <string>

#include "app/commands.h"

namespace zaya {

int checkpoint_import(Arguments arguments);
// `zaya checkpoint inspect` of a PyTorch distributed checkpoint.
int checkpoint_inspect_dcp(const std::string& path, bool as_json);
// `zaya checkpoint verify` of one: every item is opened and its checksums are compared.
int checkpoint_verify_dcp(const std::string& path);

}  // namespace zaya
