// SPDX-License-Identifier: Apache-2.0
#include "export/hf_write.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/safetensors.h"
#include "export/hf_names.h"
#include "export/proof.h"

namespace zaya {

namespace {

constexpr const char* kTokenizerFiles[] = {"tokenizer.json",          "tokenizer_config.json",
                                           "special_tokens_map.json", "added_tokens.json",
                                           "chat_template.jinja",     "tokenizer.model"};
// Room for headers, configuration and the file system's own needs.
constexpr Index kSpareBytes = Index{16} << 20;

// One tensor to be written.
struct Item {
  const Param* param = nullptr;
  Index entry = -1;  // of the parameter's first dim, or the whole
  TensorSpec spec;
};

struct Shard {
  std::string name;
  std::vector<Item> items;
};

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

DType file_dtype(const Param& param, DType dtype) {
  return param.rule.role == OptimizerRole::none ? DType::f32 : dtype;
}

// Tensors in the order of the model, cut into files.
std::vector<Shard> plan_shards(const ModelOrigin& source, const ParamSet& params,
                               const ExportOptions& options) {
  std::vector<Shard> shards(1);
  Index in_shard = 0;
  for (const Param& param : params.all()) {
    const StorageType type = storage_type_of(file_dtype(param, options.dtype));
    for (const FolderTensor& stored : stored_tensors(param, options.layout, source.config)) {
      Item item{&param, stored.entry, {stored.name, type, storage_shape(stored.shape)}};
      const Index bytes = static_cast<Index>(num_bytes_of(item.spec));
      if (in_shard > 0 && in_shard + bytes > options.max_shard_bytes) {
        shards.emplace_back();
        in_shard = 0;
      }
      in_shard += bytes;
      shards.back().items.push_back(std::move(item));
    }
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    shards[i].name = shards.size() == 1
                         ? "model.safetensors"
                         : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  }
  return shards;
}

ExportResult count(const std::vector<Shard>& shards) {
  ExportResult result;
  for (const Shard& shard : shards) {
    result.files.push_back(shard.name);
    for (const Item& item : shard.items) {
      ++result.num_tensors;
      result.num_elements += static_cast<Index>(element_count(item.spec));
      result.num_bytes += static_cast<Index>(num_bytes_of(item.spec));
    }
  }
  return result;
}

// The nearest folder above `path` that exists.
std::string existing_parent(const std::string& path) {
  std::string folder = directory_name(path);
  while (!is_directory(folder) && folder != "." && folder != "/") folder = directory_name(folder);
  return folder;
}

void check_space(const std::string& output, Index num_bytes) {
  const std::string parent = existing_parent(output);
  const Index free = free_bytes(parent), needed = num_bytes + kSpareBytes;
  if (needed <= free) return;
  throw Error{ErrorKind::hardware,
              fmt::format("{}: needs {}, free are {} in {}; free some space or export elsewhere",
                          output, human_bytes(static_cast<double>(needed)),
                          human_bytes(static_cast<double>(free)), parent)};
}

void check_memory(const ModelOrigin& source, const Backend& backend, const ExportOptions& options) {
  if (options.available_bytes == 0) return;
  const Index needed = bytes_for_proof(source, backend, options.layout, options.dtype);
  if (needed <= options.available_bytes) return;
  throw Error{ErrorKind::usage,
              fmt::format("{}: the proof needs {} of memory, available are {}; give --no-proof to "
                          "export without it",
                          options.output, human_bytes(static_cast<double>(needed)),
                          human_bytes(static_cast<double>(options.available_bytes)))};
}

// Readers of a layout give the skip class the layout's meaning: ours read the key skip_output.
void warn_of_skip_output(const ModelOrigin& source, Layout layout) {
  const std::string_view usual = layout == Layout::native ? "zero" : "identity";
  if (source.config.skip_output == usual) return;
  log_warning(
      fmt::format("the skip class gives {} here, other readers of the {} layout take {}: "
                  "config.json states skip_output, which zaya reads",
                  source.config.skip_output, name_of(layout), usual));
}

class FolderWriter {
 public:
  FolderWriter(const ModelOrigin& source, const ExportOptions& options,
               const ExportObserver& observer, const std::string& folder, Index total_bytes)
      : source_(source),
        options_(options),
        observer_(observer),
        folder_(folder),
        total_bytes_(total_bytes) {}

  void write_shard(const Shard& shard) {
    std::vector<TensorSpec> specs;
    for (const Item& item : shard.items) specs.push_back(item.spec);
    write_safetensors(
        join_path(folder_, shard.name), specs, {{"format", "pt"}},
        [&](std::size_t i, FileWriter& writer) { write_item(shard.items[i], writer); },
        "export.tensors");
  }

  void write_index(const std::vector<Shard>& shards, const ExportResult& total) {
    std::vector<std::pair<std::string, Json>> places;
    for (const Shard& shard : shards) {
      for (const Item& item : shard.items) places.emplace_back(item.spec.name, shard.name);
    }
    std::sort(places.begin(), places.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    Json metadata = Json::object(), root = Json::object();
    metadata.set("total_parameters", total.num_elements);
    metadata.set("total_size", total.num_bytes);
    root.set("metadata", std::move(metadata));
    root.set("weight_map", Json(std::move(places)));
    write_text("model.safetensors.index.json", root.dump(2) + "\n");
  }

  void write_side_files() {
    const ModelConfig& config = source_.config;
    write_text("config.json", to_hf_config(config, options_.layout, options_.dtype).dump(2) + "\n");
    const std::string generation = source_.beside("generation_config.json");
    write_text("generation_config.json", generation.empty()
                                             ? to_generation_config(config).dump(2) + "\n"
                                             : read_file(generation));
    for (const char* name : kTokenizerFiles) {
      const std::string path = source_.beside(name);
      if (!path.empty()) write_text(name, read_file(path));
    }
  }

 private:
  void write_text(const std::string& name, const std::string& text) {
    FileWriter writer(join_path(folder_, name), "export.text");
    writer.write(text);
    writer.sync();
    writer.close();
  }

  void write_item(const Item& item, FileWriter& writer) {
    if (item.entry >= 0) return write_range(*item.param, item.entry, item.entry + 1, writer);
    for_each_range(item.param->shape,
                   [&](Index begin, Index end) { write_range(*item.param, begin, end, writer); });
  }

  void write_range(const Param& param, Index begin, Index end, FileWriter& writer) {
    const Index count = param.count() / param.shape[0] * (end - begin);
    values_.resize(static_cast<std::size_t>(count));
    std::byte* data = reinterpret_cast<std::byte*>(values_.data());
    std::array<Index, Shape::kMaxRank> dims{};
    std::copy(param.shape.dims().begin(), param.shape.dims().end(), dims.begin());
    dims[0] = end - begin;
    const Shape shape(std::span<const Index>(dims.data(), param.shape.dims().size()));
    source_.weights->read(param, begin, Tensor(data, DType::f32, shape));
    std::span<const std::byte> bytes = std::as_bytes(std::span(values_));
    if (file_dtype(param, options_.dtype) == DType::bf16) {
      rounded_.resize(values_.size());
      convert_elements(StorageType::f32, bytes,
                       Tensor(reinterpret_cast<std::byte*>(rounded_.data()), DType::bf16, shape));
      bytes = std::as_bytes(std::span(rounded_));
    }
    writer.write(bytes.data(), bytes.size());
    written_ += static_cast<Index>(bytes.size());
    if (observer_) observer_(written_, total_bytes_);
  }

  const ModelOrigin& source_;
  const ExportOptions& options_;
  const ExportObserver& observer_;
  std::string folder_;
  std::vector<float> values_;
  std::vector<bf16> rounded_;
  Index written_ = 0, total_bytes_;
};

// A sharper reason than numbers that differ.
void prove(const ModelOrigin& source, const Backend& backend, const ExportOptions& options,
           const std::string& folder, ExportResult& result) {
  result.max_deviation = proof_deviation(source, folder, backend, options.dtype);
  if (*result.max_deviation == 0) return;
  throw Error{ErrorKind::damaged,
              fmt::format("{}: logits of the exported folder deviate from the source's by {:.3g} "
                          "(allowed: 0, equal bits); nothing was kept, is the disk or memory bad?",
                          options.output, *result.max_deviation)};
}

void remove_partial(const std::string& partial) {
  try {
    remove_all(partial);
  } catch (const Error& error) {
    log_warning(fmt::format("an unfinished export stays behind: {}", error.message()));
  }
}

}  // namespace

ExportResult export_model(const ModelOrigin& source, const Backend* backend,
                          const ExportOptions& options, const ExportObserver& observer) {
  const std::string output = without_slashes(options.output), partial = output + ".partial";
  if (path_kind(output) != PathKind::absent) {
    throw Error{ErrorKind::usage,
                output + ": exists already; name another folder or remove it first"};
  }
  static_cast<void>(to_hf_config(source.config, options.layout, options.dtype));
  ParamSet params;
  const Model model(source.config, params);
  source.weights->check(params);
  const std::vector<Shard> shards = plan_shards(source, params, options);
  ExportResult result = count(shards);
  check_space(output, result.num_bytes);
  if (backend != nullptr) check_memory(source, *backend, options);
  warn_of_skip_output(source, options.layout);
  try {
    remove_all(partial);
    make_directories(partial);
    FolderWriter writer(source, options, observer, partial, result.num_bytes);
    for (const Shard& shard : shards) writer.write_shard(shard);
    if (shards.size() > 1) writer.write_index(shards, result);
    writer.write_side_files();
    sync_directory(partial);
    if (backend != nullptr) prove(source, *backend, options, partial, result);
    fault_point("export.before_rename");
    rename_durably(partial, output);
  } catch (...) {
    remove_partial(partial);
    throw;
  }
  return result;
}

DType stored_dtype(const ModelOrigin& source) {
  ParamSet params;
  const Model model(source.config, params);
  source.weights->check(params);
  return source.weights->is_stored_as_bf16(*params.find("model.embed_tokens.weight")) ? DType::bf16
                                                                                      : DType::f32;
}

}  // namespace zaya
