// SPDX-License-Identifier: Apache-2.0
#include "export/model_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/reader.h"

namespace zaya {

namespace {

// The configuration inside a checkpoint's run state.
ModelConfig config_of_run_state(const Json& run_state, const std::string& path) {
  ModelConfig config;
  const Json* keys = run_state.find("configuration");
  if (keys == nullptr) {
    throw Error{ErrorKind::damaged, path + ": the checkpoint does not say which model it holds"};
  }
  const FieldList fields = list_fields(config);
  for (const Field& field : fields.fields()) {
    if (const Json* value = keys->find("model." + field.name())) {
      field.set(*value, path, "model." + field.name());
    }
  }
  check_model_config(config, path);
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

ModelOrigin published_source(const std::string& path) {
  const std::string file = join_path(path, "config.json");
  if (!is_file(file)) throw Error{ErrorKind::usage, path + ": has no config.json"};
  const HfConfig config = parse_hf_config(Json::parse(read_file(file), file), file);
  ModelOrigin source;
  source.path = path;
  source.config = config.model;
  source.layout = config.layout;
  source.skip_reason =
      config.states_skip_output ? "config.json" : fmt::format("{} layout", name_of(config.layout));
  source.weights = folder_weights(path, config);
  source.folders = {path};
  return source;
}

ModelOrigin checkpoint_source(const std::string& path, const std::string& step_folder) {
  ModelOrigin source;
  Json run_state;
  source.path = step_folder;
  source.weights = checkpoint_weights(step_folder, run_state);
  source.config = config_of_run_state(run_state, step_folder);
  source.skip_reason = "model.skip_output of the run";
  source.trained_length = trained_length(run_state);
  source.folders = {path, step_folder, directory_name(directory_name(step_folder))};
  return source;
}

bool is_stream_weight(const Param& param) { return param.rule.weight_type == WeightType::stream; }

DType weight_dtype(const Param& param, const Backend& backend) {
  return is_stream_weight(param) ? backend.stream() : backend.compute();
}

// Balancing biases are f32 in every file.
bool is_rounded(const Param& param, const OpenOptions& options) {
  return options.rounds_to_bf16 && param.rule.role != OptimizerRole::none;
}

// The parameter where it lies, if kernels can use it there.
std::optional<Tensor> usable_map(const ModelOrigin& source, const Param& param,
                                 const Backend& backend, const OpenOptions& options) {
  if (options.is_for_training) return std::nullopt;
  if (is_rounded(param, options) && !source.weights->is_stored_as_bf16(param)) return std::nullopt;
  return source.weights->mapped(param, weight_dtype(param, backend));
}

Index positions_of(const ModelConfig& config, const OpenOptions& options) {
  const Index most = config.max_position_embeddings;
  return options.max_positions > 0 ? std::min(options.max_positions, most) : most;
}

// Moves values from a source into bound tensors of any dtype, in bounded memory.
class Filler {
 public:
  Filler(const ParamSet& params, const WeightSource& weights, const Backend* backend)
      : weights_(weights), backend_(backend), buffer_("conversion", buffer_bytes(params)) {}

  void fill(const Param& param, Tensor target, bool rounds) {
    if (!rounds && target.dtype() == DType::f32) {
      weights_.read(param, 0, target);
      return;
    }
    for_each_range(param.shape, [&](Index begin, Index end) {
      const Rewind rewind(buffer_);
      const Tensor part = target.slice(begin, end);
      const Tensor values = buffer_.take(DType::f32, part.shape());
      weights_.read(param, begin, values);
      if (!rounds) return backend_->move->copy(values, part);
      const Tensor rounded = buffer_.take(DType::bf16, part.shape());
      backend_->move->copy(values, rounded);
      backend_->move->copy(rounded, part);
    });
  }

 private:
  static Index buffer_bytes(const ParamSet& params) {
    Index most = 0;
    for (const Param& param : params.all()) most = std::max(most, largest_range(param.shape));
    return most * (size_of(DType::f32) + size_of(DType::bf16)) + 128;
  }

  const WeightSource& weights_;
  const Backend* backend_;
  Arena buffer_;
};

// Bytes of weights and rotary tables; `params` are declared for the source's configuration.
Index arena_bytes(const ModelOrigin& source, const ParamSet& params, const Backend& backend,
                  const OpenOptions& options) {
  Index bytes = 0;
  for (const Param& param : params.all()) {
    if (options.is_for_training) bytes += param.count() * size_of(backend.compute()) + 64;
    if (usable_map(source, param, backend, options)) continue;
    bytes += param.count() * size_of(weight_dtype(param, backend)) + 64;
  }
  if (options.is_for_training) bytes += params.flat_count() * size_of(backend.stream()) + 64;
  // At most two tables: one per attention kind.
  const Index table =
      positions_of(source.config, options) * source.config.head_dim * size_of(backend.stream());
  return bytes + 2 * (table + 64);
}

void load_weights(const ModelOrigin& source, const Backend& backend, const OpenOptions& options,
                  OpenModel& open) {
  Filler filler(*open.params, *source.weights, &backend);
  if (options.is_for_training) {
    open.params->bind_for_training(*open.run, backend);
    for (const Param& param : open.params->all()) {
      filler.fill(param, param.master, is_rounded(param, options));
    }
    open.params->refresh_copies(backend);
    return;
  }
  for (Param& param : open.params->all()) {
    if (const auto place = usable_map(source, param, backend, options)) {
      param.weight = *place;
      continue;
    }
    param.weight = open.run->take(weight_dtype(param, backend), param.shape);
    filler.fill(param, param.weight, is_rounded(param, options));
  }
}

}  // namespace

std::string ModelOrigin::beside(const std::string& name) const {
  for (const std::string& folder : folders) {
    if (is_file(join_path(folder, name))) return join_path(folder, name);
  }
  return "";
}

ModelOrigin find_model(const std::string& path) {
  if (path_kind(path) != PathKind::directory) {
    throw Error{ErrorKind::usage,
                path + ": no such folder; give a checkpoint, a run folder or a model folder"};
  }
  if (is_file(join_path(path, "config.json")) || HfFolder::is_one(path)) {
    // A step folder holds .safetensors files too.
    if (!is_file(join_path(path, kIndexName))) return published_source(path);
  }
  const std::string found = find_newest_checkpoint(path);
  if (found.empty()) {
    throw Error{ErrorKind::usage, path + ": holds neither a checkpoint nor a published model"};
  }
  return checkpoint_source(path, found);
}

ModelOrigin fresh_model(const ModelConfig& config, Index seed, ThreadPool& pool) {
  ModelOrigin source;
  source.path = fmt::format("fresh weights of seed {}", seed);
  source.config = config;
  source.skip_reason = "model.skip_output";
  source.weights = fresh_weights(config, static_cast<std::uint64_t>(seed), pool);
  return source;
}

OpenModel open_model(const ModelOrigin& source, const Backend& backend,
                     const OpenOptions& options) {
  OpenModel open;
  open.config = source.config;
  open.layout = source.layout;
  open.skip_reason = source.skip_reason;
  open.trained_length = source.trained_length;
  open.params = std::make_unique<ParamSet>();
  open.model = std::make_unique<Model>(open.config, *open.params);
  source.weights->check(*open.params);
  open.run = std::make_unique<Arena>("model", arena_bytes(source, *open.params, backend, options));
  load_weights(source, backend, options, open);
  open.model->bind(*open.run, backend, positions_of(open.config, options));
  open.tokenizer_path = source.beside("tokenizer.json");
  const std::string generation = source.beside("generation_config.json");
  if (!generation.empty()) {
    open.generation_config = Json::parse(read_file(generation), generation);
  }
  return open;
}

OpenModel open_model(const std::string& path, const Backend& backend, const OpenOptions& options) {
  auto source = std::make_unique<ModelOrigin>(find_model(path));
  OpenModel open = open_model(*source, backend, options);
  open.source = std::move(source);
  return open;
}

Index bytes_to_open(const ModelOrigin& source, const Backend& backend, const OpenOptions& options) {
  ParamSet params;
  const Model model(source.config, params);
  source.weights->check(params);
  return arena_bytes(source, params, backend, options);
}

ModelConfig model_config_of_folder(const std::string& path) { return find_model(path).config; }

void load_weights_of_folder(const std::string& path, ParamSet& params) {
  const ModelOrigin source = find_model(path);
  source.weights->check(params);
  Filler filler(params, *source.weights, nullptr);
  for (const Param& param : params.all()) filler.fill(param, param.master, false);
}

}  // namespace zaya
