// SPDX-License-Identifier: Apache-2.0
//
// Tensor names of published folders. Native names are the parameters' own names. The legacy layout
// has 2L alternating half-layers whose residual scaling acts at the entry of the next half-layer,
// and stores each expert as tensors of its own.
#pragma once

#include <string>
#include <vector>

#include "export/hf_config.h"
#include "model/params.h"

namespace zaya {

// One stored tensor of a parameter: the whole (entry = -1), or entry `entry` of its first dim.
struct FolderTensor {
  std::string name;
  Index entry = -1;
  Shape shape;  // as stored
};

// How a folder of this layout stores the parameter.
std::vector<FolderTensor> stored_tensors(const Param& param, Layout layout,
                                         const ModelConfig& config);

}  // namespace zaya
