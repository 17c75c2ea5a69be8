// SPDX-License-Identifier: Apache-2.0
#include "export/model_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/reader.h"
#include "export/hf_names.h"

namespace zaya {

namespace {

constexpr std::size_t kListedProblems = 6;

// The configuration inside a checkpoint's run state.
ModelConfig config_of_checkpoint(const CheckpointReader& reader) {
  ModelConfig config;
  const Json* keys = reader.run_state().find("configuration");
  if (keys == nullptr) {
    throw Error{ErrorKind::damaged,
                reader.path() + ": the checkpoint does not say which model it holds"};
  }
  const FieldList fields = list_fields(config);
  for (const Field& field : fields.fields()) {
    if (const Json* value = keys->find("model." + field.name())) {
      field.set(*value, reader.path(), "model." + field.name());
    }
  }
  check_model_config(config, reader.path());
  return config;
}

// Sequence length of the last phase in a checkpoint's configuration, or 0.
Index trained_length(const Json& run_state) {
  Index length = 0;
  for (Index phase = 0;; ++phase) {
    const Json* value =
        run_state.at("configuration").find(fmt::format("phase.{}.sequence_length", phase));
    if (value == nullptr) return length;
    length = value->as_integer();
  }
}

// The HF folder's config.json.
HfConfig config_of_folder(const std::string& path) {
  const std::string file = join_path(path, "config.json");
  if (!is_file(file)) throw Error{ErrorKind::usage, path + ": has no config.json"};
  return parse_hf_config(Json::parse(read_file(file), file), file);
}

// "" when `path` is a published folder; else the step folder of this project.
std::string find_step_folder(const std::string& path) {
  if (path_kind(path) != PathKind::directory) {
    throw Error{ErrorKind::usage,
                path + ": no such folder; give a checkpoint, a run folder or a model folder"};
  }
  if (is_file(join_path(path, "config.json")) || HfFolder::is_one(path)) return "";
  const std::string found = find_newest_checkpoint(path);
  if (found.empty()) {
    throw Error{ErrorKind::usage, path + ": holds neither a checkpoint nor a published model"};
  }
  return found;
}

// Files beside the weights: in the folder itself, or in the run folder of a step folder.
std::string find_beside(const std::string& path, const std::string& step_folder,
                        const std::string& name) {
  std::vector<std::string> folders{path};
  if (!step_folder.empty()) {
    folders.push_back(step_folder);
    folders.push_back(directory_name(directory_name(step_folder)));
  }
  for (const std::string& folder : folders) {
    if (is_file(join_path(folder, name))) return join_path(folder, name);
  }
  return "";
}

// Collects what is wrong with a folder's tensors, for one message.
class Problems {
 public:
  explicit Problems(std::string where) : where_(std::move(where)) {}
  void add(std::string problem) { list_.push_back(std::move(problem)); }
  void raise() const {
    if (list_.empty()) return;
    std::string text;
    for (std::size_t i = 0; i < list_.size() && i < kListedProblems; ++i) {
      text += (i == 0 ? "" : "; ") + list_[i];
    }
    if (list_.size() > kListedProblems) {
      text += fmt::format("; and {} more", list_.size() - kListedProblems);
    }
    throw Error{ErrorKind::damaged, where_ + ": " + text};
  }

 private:
  std::string where_;
  std::vector<std::string> list_;
};

// Checks names and shapes of everything before any value is read.
void check_tensors(const HfFolder& folder, const ParamSet& params, Layout layout,
                   const ModelConfig& config) {
  Problems problems(folder.path());
  std::vector<std::string> used;
  for (const Param& param : params.all()) {
    for (const FolderTensor& wanted : stored_tensors(param, layout, config)) {
      const std::optional<StoredTensor> found = folder.find(wanted.name);
      if (!found) {
        problems.add(fmt::format("{} {} is missing", wanted.name, to_string(wanted.shape)));
      } else if (found->spec.shape != storage_shape(wanted.shape)) {
        problems.add(fmt::format("{} is {}, expected {}", wanted.name, describe(found->spec),
                                 to_string(wanted.shape)));
      } else if (!is_convertible(found->spec.type, DType::f32)) {
        problems.add(fmt::format("{} is {}, expected floating-point values", wanted.name,
                                 describe(found->spec)));
      }
      used.push_back(wanted.name);
    }
  }
  std::sort(used.begin(), used.end());
  for (const std::string& name : folder.names()) {
    // A tied head may be stored all the same.
    if (name == "lm_head.weight" && config.tie_word_embeddings) continue;
    if (!std::binary_search(used.begin(), used.end(), name)) {
      problems.add(name + " is not part of this model");
    }
  }
  problems.raise();
}

// Reads a parameter into `out`, whose dtype may differ from the stored one.
void read_param(const HfFolder& folder, const Param& param, Layout layout,
                const ModelConfig& config, Tensor out) {
  for (const FolderTensor& stored : stored_tensors(param, layout, config)) {
    const Tensor part = stored.entry < 0 ? out : out[stored.entry];
    read_stored_tensor(folder.tensor(stored.name), part, folder.path());
  }
}

// The parameter's bytes where they lie, if dtype and alignment allow.
std::optional<Tensor> mapped_param(const HfFolder& folder, const Param& param, Layout layout,
                                   const ModelConfig& config, DType dtype) {
  const std::vector<FolderTensor> stored = stored_tensors(param, layout, config);
  if (stored.size() != 1) return std::nullopt;
  const StoredTensor tensor = folder.tensor(stored[0].name);
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(tensor.bytes.data());
  if (dtype_of_storage(tensor.spec.type) != dtype ||
      address % static_cast<std::uintptr_t>(size_of(dtype)) != 0) {
    return std::nullopt;
  }
  // Weights are only read in inference; the map is read-only all the same.
  return Tensor(const_cast<std::byte*>(tensor.bytes.data()), dtype, param.shape);
}

Index rotary_bytes(const ModelConfig& config, Index positions) {
  // At most two tables: one per attention kind.
  return 2 * (positions * config.head_dim * 8 + 64);
}

struct Loader {
  const Backend& backend;
  OpenModel& open;
  bool is_for_training;
  Index positions;

  DType dtype_of(const Param& param) const {
    return param.rule.weight_type == WeightType::compute ? backend.compute() : backend.stream();
  }
  void make_arena(Index weight_bytes) {
    open.run =
        std::make_unique<Arena>("model", weight_bytes + rotary_bytes(open.config, positions));
  }
  Index training_bytes() const {
    Index bytes = open.params->flat_count() * 8 + 64;  // masters and copies
    for (const Param& param : open.params->all()) bytes += param.count() * 4 + 64;
    return bytes;
  }

  void load_folder() {
    const HfFolder& folder = *open.mapped;
    check_tensors(folder, *open.params, open.layout, open.config);
    if (is_for_training) {
      make_arena(training_bytes());
      open.params->bind_for_training(*open.run, backend);
      for (Param& param : open.params->all()) {
        read_param(folder, param, open.layout, open.config, param.master);
      }
      open.params->refresh_copies(backend);
      return;
    }
    Index bytes = 0;
    for (Param& param : open.params->all()) {
      const auto place = mapped_param(folder, param, open.layout, open.config, dtype_of(param));
      if (place) {
        param.weight = *place;
      } else {
        bytes += param.count() * size_of(dtype_of(param)) + 64;
      }
    }
    make_arena(bytes);
    for (Param& param : open.params->all()) {
      if (!param.weight.is_none()) continue;
      param.weight = open.run->take(dtype_of(param), param.shape);
      read_param(folder, param, open.layout, open.config, param.weight);
    }
  }

  void load_checkpoint(const CheckpointReader& reader) {
    if (is_for_training) {
      make_arena(training_bytes());
      open.params->bind_for_training(*open.run, backend);
      for (Param& param : open.params->all()) reader.read(param.name, param.master);
      open.params->refresh_copies(backend);
      return;
    }
    Index bytes = 0, largest = 0;
    for (const Param& param : open.params->all()) {
      bytes += param.count() * size_of(dtype_of(param)) + 64;
      largest = std::max(largest, param.count() * 4 + 64);
    }
    make_arena(bytes);
    open.params->bind_for_inference(*open.run, backend);
    Arena buffer("conversion", largest);
    for (Param& param : open.params->all()) {
      if (param.weight.dtype() == DType::f32) {
        reader.read(param.name, param.weight);
        continue;
      }
      const Rewind rewind(buffer);
      const Tensor values = buffer.take(DType::f32, param.shape);
      reader.read(param.name, values);
      backend.move->copy(values, param.weight);
    }
  }
};

}  // namespace

OpenModel open_model(const std::string& path, const Backend& backend, const OpenOptions& options) {
  OpenModel open;
  const std::string step_folder = find_step_folder(path);
  std::optional<CheckpointReader> reader;
  if (step_folder.empty()) {
    const HfConfig config = config_of_folder(path);
    open.config = config.model;
    open.layout = config.layout;
    open.mapped = std::make_unique<HfFolder>(path);
  } else {
    reader.emplace(step_folder);
    open.config = config_of_checkpoint(*reader);
    open.trained_length = trained_length(reader->run_state());
  }
  open.params = std::make_unique<ParamSet>();
  open.model = std::make_unique<Model>(open.config, *open.params);
  const Index positions = options.max_positions > 0
                              ? std::min(options.max_positions, open.config.max_position_embeddings)
                              : open.config.max_position_embeddings;
  Loader loader{backend, open, options.is_for_training, positions};
  if (reader) {
    loader.load_checkpoint(*reader);
  } else {
    loader.load_folder();
  }
  open.model->bind(*open.run, backend, positions);
  open.tokenizer_path = find_beside(path, step_folder, "tokenizer.json");
  const std::string generation = find_beside(path, step_folder, "generation_config.json");
  if (!generation.empty()) {
    open.generation_config = Json::parse(read_file(generation), generation);
  }
  return open;
}

ModelConfig model_config_of_folder(const std::string& path) {
  const std::string step_folder = find_step_folder(path);
  if (step_folder.empty()) return config_of_folder(path).model;
  return config_of_checkpoint(CheckpointReader(step_folder));
}

void load_weights_of_folder(const std::string& path, ParamSet& params) {
  const std::string step_folder = find_step_folder(path);
  if (!step_folder.empty()) {
    const CheckpointReader reader(step_folder);
    for (Param& param : params.all()) reader.read(param.name, param.master);
    return;
  }
  const HfConfig config = config_of_folder(path);
  const HfFolder folder(path);
  check_tensors(folder, params, config.layout, config.model);
  for (Param& param : params.all()) {
    read_param(folder, param, config.layout, config.model, param.master);
  }
}

}  // namespace zaya
