// SPDX-License-Identifier: Apache-2.0
//
// Opens a model for use: a checkpoint folder of this project, a run folder (its newest complete
// checkpoint), or a published folder in either ZAYA layout.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/json.h"
#include "export/hf_config.h"
#include "export/weight_source.h"
#include "model/model.h"

namespace zaya {

// A model before its weights are read.
struct ModelOrigin {
  std::string path;  // of the step folder or published folder; a name for fresh weights
  ModelConfig config;
  std::optional<Layout> layout;  // of a published folder
  std::string skip_reason;       // why config.skip_output is what it is: "native layout"
  Index trained_length = 0;      // sequence length of the last phase, 0 when unknown
  std::unique_ptr<WeightSource> weights;
  std::vector<std::string> folders;  // where files beside the weights may lie

  // Path of tokenizer.json, generation_config.json, ...; "" when there is none.
  std::string beside(const std::string& name) const;
};

// Error{usage} for a path that is no model, Error{damaged} for one that can't be read.
ModelOrigin find_model(const std::string& path);
// A model that was never trained; `pool` must outlive it.
ModelOrigin fresh_model(const ModelConfig& config, Index seed, ThreadPool& pool);

// A model ready for passes without gradients (or with, when asked for at opening).
struct OpenModel {
  ModelConfig config;
  std::optional<Layout> layout;  // of a published folder
  std::string skip_reason;
  std::unique_ptr<ParamSet> params;
  std::unique_ptr<Model> model;
  std::unique_ptr<Arena> run;  // rotary tables, and weights that are not used where they lie
  std::unique_ptr<ModelOrigin> source;  // what `params` may point into; null when borrowed
  std::string tokenizer_path;           // "" when the folder has none
  Json generation_config;               // generation_config.json, or null
  Index trained_length = 0;             // sequence length of the last phase, 0 when unknown
};

struct OpenOptions {
  // f32 masters and gradients possible, as for training; else only what kernels read.
  bool is_for_training = false;
  // Positions that rotary tables must cover; 0 = the model's max_position_embeddings.
  Index max_positions = 0;
  // Values as a bf16 export will hold them (balancing biases stay f32).
  bool rounds_to_bf16 = false;
};

// Error{damaged} lists every missing, misshapen or superfluous tensor by name with expected and
// found shapes.
OpenModel open_model(const std::string& path, const Backend& backend, const OpenOptions& options);
// The same from a source that outlives the result.
OpenModel open_model(const ModelOrigin& source, const Backend& backend, const OpenOptions& options);
// Bytes of memory that open_model() takes beyond maps.
Index bytes_to_open(const ModelOrigin& source, const Backend& backend, const OpenOptions& options);

// Shape of the model in a folder, and its weights into bound masters (model.from of a run).
ModelConfig model_config_of_folder(const std::string& path);
void load_weights_of_folder(const std::string& path, ParamSet& params);

}  // namespace zaya
