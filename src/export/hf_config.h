// SPDX-License-Identifier: Apache-2.0
//
// config.json of published model folders, in its three dialects: native (transformers >= 5.13),
// legacy with scalars (ZAYA1-8B-legacy, -74B), legacy with one entry per half-layer (ZAYA1-base).
#pragma once

#include <string_view>

#include "base/json.h"
#include "model/config.h"
#include "tensor/dtype.h"

namespace zaya {

enum class Layout { native, legacy };
std::string_view name_of(Layout layout);  // "native"

struct HfConfig {
  ModelConfig model;
  Layout layout = Layout::native;
  bool states_skip_output = false;  // skip_output stands in the file
};

// Throws Error{damaged} or Error{usage} beginning with `where`. Legacy windows exclude the query:
// native = value + 1. skip_output is zero for native files, identity for legacy ones, unless the
// file states it. Keys of ours that other readers ignore: skip_output, router_norm_eps.
HfConfig parse_hf_config(const Json& file, std::string_view where);

// The config.json of a model whose files hold `dtype` (f32 or bf16): the native dialect, or the
// legacy one with scalars. Keys of ours are written only where the layout means something else.
// Error{usage} when the layout can't say what the model is.
Json to_hf_config(const ModelConfig& model, Layout layout, DType dtype);
// The generation_config.json that goes with it.
Json to_generation_config(const ModelConfig& model);

}  // namespace zaya
