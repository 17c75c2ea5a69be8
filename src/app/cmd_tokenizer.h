// SPDX-License-Identifier: Apache-2.0
//
// The parts of `zaya tokenizer` that stand in files of their own.
#pragma once

#include "app/commands.h"

namespace zaya {

int command_tokenizer_train(Arguments arguments);

}  // namespace zaya
