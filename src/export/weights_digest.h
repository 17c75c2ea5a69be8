// SPDX-License-Identifier: Apache-2.0
//
// A digest that says whether two models have the same weights, wherever they are stored and under
// which names.
#pragma once

#include <functional>
#include <string>

#include "export/model_folder.h"

namespace zaya {

// "xxh3-128:<hex>" over the native name, shape and f32 values of each parameter and each balancing
// bias; layout, element type and files do not enter. The observer is called with the number of
// elements done since the last call, by one thread at a time.
std::string weights_digest(const ModelOrigin& source, ThreadPool& pool,
                           const std::function<void(Index)>& observer = {});

}  // namespace zaya
