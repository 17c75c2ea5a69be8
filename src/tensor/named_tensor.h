// SPDX-License-Identifier: Apache-2.0
//
// A tensor under the name by which checkpoints know it.
#pragma once

#include <string>

#include "tensor/tensor.h"

namespace zaya {

struct NamedTensor {
  std::string name;
  ConstTensor tensor;
};

}  // namespace zaya
