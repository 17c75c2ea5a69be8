// SPDX-License-Identifier: Apache-2.0
//
// Opens a model for use: a checkpoint folder of this project, a run folder (its newest complete
// checkpoint), or a published folder in either ZAYA layout.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/json.h"
#include "checkpoint/hf_folder.h"
#include "export/hf_config.h"
#include "model/model.h"

namespace zaya {

// A model ready for passes without gradients (or with, when asked for at opening).
struct OpenModel {
  ModelConfig config;
  Layout layout = Layout::native;
  std::unique_ptr<ParamSet> params;
  std::unique_ptr<Model> model;
  std::unique_ptr<Arena> run;  // weights and rotary tables
  // Weights that are used where they lie in the mapped files of a published folder.
  std::unique_ptr<HfFolder> mapped;
  std::string tokenizer_path;  // "" when the folder has none
  Json generation_config;      // generation_config.json, or null
  Index trained_length = 0;    // sequence length of the last phase, 0 when unknown
};

struct OpenOptions {
  // f32 masters and gradients possible, as for training; else only what kernels read.
  bool is_for_training = false;
  // Positions that rotary tables must cover; 0 = the model's max_position_embeddings.
  Index max_positions = 0;
};

// Error{usage} for a path that is no model, Error{damaged} listing missing or misshapen tensors by
// name with expected and found shapes.
OpenModel open_model(const std::string& path, const Backend& backend, const OpenOptions& options);

// Shape of the model in a folder, and its weights into bound masters (model.from of a run).
ModelConfig model_config_of_folder(const std::string& path);
void load_weights_of_folder(const std::string& path, ParamSet& params);

}  // namespace zaya
