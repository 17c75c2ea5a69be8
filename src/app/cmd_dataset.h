// SPDX-License-Identifier: Apache-2.0
//
// The sub-commands of `zaya dataset` that stand in files of their own.
#pragma once

#include "app/commands.h"

namespace zaya {

int dataset_import(Arguments arguments);

}  // namespace zaya
