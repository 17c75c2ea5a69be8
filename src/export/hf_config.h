// SPDX-License-Identifier: Apache-2.0
//
// config.json of published model folders, in its three dialects: native (transformers >= 5.13),
// legacy with scalars (ZAYA1-8B-legacy, -74B), legacy with one entry per half-layer (ZAYA1-base).
#pragma once

#include <string_view>

#include "base/json.h"
#include "model/config.h"

namespace zaya {

enum class Layout { native, legacy };

struct HfConfig {
  ModelConfig model;
  Layout layout = Layout::native;
};

// Throws Error{damaged} or Error{usage} beginning with `where`. Legacy windows exclude the query:
// native = value + 1. skip_output is zero for native files, identity for legacy ones.
HfConfig parse_hf_config(const Json& file, std::string_view where);

}  // namespace zaya
