// SPDX-License-Identifier: Apache-2.0
//
// The post-processor of a tokenizer: the ids it puts before and after those of a text.
#pragma once

#include <string>

#include "base/json.h"
#include "text/tokenizer_file.h"

namespace zaya {

// Reads the member "post_processor" (null: no template). Throws Error naming what is not supported.
Template read_post_processor(const Json& json, const std::string& where);

}  // namespace zaya
