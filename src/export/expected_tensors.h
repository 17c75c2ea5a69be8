// SPDX-License-Identifier: Apache-2.0
//
// What a published folder with a given config.json has to hold.
#pragma once

#include <string>
#include <vector>

#include "export/hf_names.h"

namespace zaya {

// All stored tensors of the model that `config_path`, a config.json, describes: names and shapes as
// stored in its layout. Allocates no weights. Throws as parse_hf_config.
std::vector<FolderTensor> expected_tensors(const std::string& config_path);

}  // namespace zaya
