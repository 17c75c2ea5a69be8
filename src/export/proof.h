// SPDX-License-Identifier: Apache-2.0
//
// Does a folder compute what the model that it came from computes? Both are opened in turn and give
// logits for one fixed batch.
#pragma once

#include <string>

#include "export/model_folder.h"

namespace zaya {

// The largest absolute deviation of the folder's logits from the source's, whose values are rounded
// to `dtype` first; 0 exactly when all bits are equal, infinity when a NaN faces a number. The
// backend has the numerics of `dtype`. Passes the fault point export.proof, at which tests plant a
// deviation.
double proof_deviation(const ModelOrigin& source, const std::string& folder, const Backend& backend,
                       DType dtype);
// Memory that it takes: one model at a time, beyond maps.
Index bytes_for_proof(const ModelOrigin& source, const Backend& backend, Layout layout,
                      DType dtype);

}  // namespace zaya
