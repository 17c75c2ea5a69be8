// SPDX-License-Identifier: Apache-2.0
//
// PyTorch distributed checkpoints: `zaya checkpoint inspect` and `zaya checkpoint import`.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "app/cmd_checkpoint.h"
#include "base/cli.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/stop.h"
#include "checkpoint/dcp.h"
#include "checkpoint/dcp_import.h"
#include "export/expected_tensors.h"

namespace zaya {

namespace {

constexpr std::size_t kListedProblems = 6;
constexpr const char* kCopiedNames[] = {
    "config.json",           "generation_config.json",  "tokenizer.json",
    "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
};

// Ends an import that a signal asked to stop.
struct Stopped {};

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

std::string bytes_text(Index num_bytes) { return human_bytes(static_cast<double>(num_bytes)); }

Json list_of(const std::vector<std::uint64_t>& numbers) {
  Json list = Json::array();
  // Sizes were checked against those of files: they fit.
  for (const std::uint64_t number : numbers) list.push(static_cast<Index>(number));
  return list;
}

Json json_of(const DcpTensor& tensor) {
  Json chunks = Json::array(), out = Json::object();
  for (const DcpChunk& chunk : tensor.chunks) {
    Json item = Json::object();
    item.set("offsets", list_of(chunk.offsets));
    item.set("sizes", list_of(chunk.sizes));
    item.set("file", chunk.item.file);
    item.set("offset", static_cast<Index>(chunk.item.offset));
    item.set("length", static_cast<Index>(chunk.item.length));
    chunks.push(std::move(item));
  }
  out.set("name", tensor.spec.name);
  out.set("dtype", name_of(tensor.spec.type));
  out.set("shape", list_of(tensor.spec.shape));
  out.set("bytes", static_cast<Index>(num_bytes_of(tensor.spec)));
  out.set("chunks", std::move(chunks));
  return out;
}

// The value of an object as text, or why it can't be told.
Json value_or_reason(const DcpFolder& folder, const DcpObject& object, std::string& reason) {
  try {
    return folder.value_of(object);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::damaged) throw;
    reason = error.message();
    return {};
  }
}

void print_json(const DcpFolder& folder) {
  Json files = Json::array(), tensors = Json::array(), objects = Json::object();
  Json unread = Json::object(), out = Json::object();
  for (const auto& [name, num_bytes] : folder.files()) {
    Json file = Json::object();
    file.set("name", name);
    file.set("bytes", num_bytes);
    files.push(std::move(file));
  }
  for (const DcpTensor& tensor : folder.tensors()) tensors.push(json_of(tensor));
  for (const DcpObject& object : folder.objects()) {
    std::string reason;
    objects.set(object.name, value_or_reason(folder, object, reason));
    if (!reason.empty()) unread.set(object.name, reason);
  }
  out.set("kind", "pytorch checkpoint");
  out.set("path", folder.path());
  out.set("files", std::move(files));
  out.set("tensors", std::move(tensors));
  out.set("objects", std::move(objects));
  out.set("unread_objects", std::move(unread));
  print(out.dump() + "\n");
}

void print_text(const DcpFolder& folder) {
  print(fmt::format("pytorch checkpoint {}\n", folder.path()));
  for (const auto& [name, num_bytes] : folder.files()) {
    print(fmt::format("file {}: {}\n", name, bytes_text(num_bytes)));
  }
  print(fmt::format("{} tensors, {}\n", folder.tensors().size(), bytes_text(folder.num_bytes())));
  for (const DcpTensor& tensor : folder.tensors()) {
    print(fmt::format(
        "  {}  {}  {}  {} chunk(s)\n", json_quote(tensor.spec.name), describe(tensor.spec),
        bytes_text(static_cast<Index>(num_bytes_of(tensor.spec))), tensor.chunks.size()));
  }
  for (const DcpObject& object : folder.objects()) {
    std::string reason;
    const Json value = value_or_reason(folder, object, reason);
    print(fmt::format("object {}: {}\n", json_quote(object.name),
                      reason.empty() ? value.dump() : "not read: " + reason));
  }
}

// config.json and what goes with it; none when --config was not given and the checkpoint has none.
std::vector<std::pair<std::string, std::string>> files_to_copy(const std::string& config,
                                                               const std::string& checkpoint) {
  const std::string& folder = config.empty() ? checkpoint : config;
  if (is_file(folder)) return {{folder, kCopiedNames[0]}};
  std::vector<std::pair<std::string, std::string>> files;
  for (const char* name : kCopiedNames) {
    if (is_file(join_path(folder, name))) files.emplace_back(join_path(folder, name), name);
  }
  if (!files.empty() && files[0].second == kCopiedNames[0]) return files;
  if (config.empty()) return {};
  throw Error{ErrorKind::usage,
              fmt::format("zaya checkpoint import: --config {}: no such file, nor a folder with "
                          "config.json",
                          config)};
}

const DcpTensor* find_tensor(const DcpFolder& folder, const std::string& name) {
  const auto found = std::lower_bound(
      folder.tensors().begin(), folder.tensors().end(), name,
      [](const DcpTensor& tensor, const std::string& key) { return tensor.spec.name < key; });
  return found != folder.tensors().end() && found->spec.name == name ? &*found : nullptr;
}

// "; give --prefix X" when some tensor has the name behind other words.
std::string prefix_advice(const DcpFolder& folder, const std::string& name) {
  for (const DcpTensor& tensor : folder.tensors()) {
    const std::string& stored = tensor.spec.name;
    if (stored.ends_with("." + name)) {
      return "; give --prefix " + stored.substr(0, stored.size() - name.size());
    }
  }
  return "";
}

// Exactly the tensors of the model, checked before anything is written.
std::vector<DcpImport::Tensor> tensors_of_model(const DcpFolder& folder, const std::string& prefix,
                                                const std::string& config_path) {
  std::vector<DcpImport::Tensor> tensors;
  std::vector<std::string> problems;
  std::string advice;
  for (const FolderTensor& wanted : expected_tensors(config_path)) {
    const DcpTensor* found = find_tensor(folder, prefix + wanted.name);
    if (found == nullptr) {
      if (advice.empty()) advice = prefix_advice(folder, wanted.name);
      problems.push_back(prefix + wanted.name + " is missing");
    } else if (found->spec.shape != storage_shape(wanted.shape)) {
      problems.push_back(fmt::format("{} is {}, expected {}", found->spec.name,
                                     describe(found->spec), to_string(wanted.shape)));
    } else if (!is_convertible(found->spec.type, DType::f32)) {
      problems.push_back(fmt::format("{} is {}, expected floating-point values", found->spec.name,
                                     describe(found->spec)));
    }
    tensors.push_back({found, wanted.name});
  }
  if (!problems.empty()) {
    std::string text;
    for (std::size_t i = 0; i < std::min(problems.size(), kListedProblems); ++i) {
      text += (i == 0 ? "" : "; ") + problems[i];
    }
    if (problems.size() > kListedProblems) {
      text += fmt::format("; and {} more", problems.size() - kListedProblems);
    }
    throw Error{ErrorKind::damaged, fmt::format("{}: does not hold the model of {}: {}{}",
                                                folder.path(), config_path, text, advice)};
  }
  if (const std::size_t others = folder.tensors().size() - tensors.size(); others > 0) {
    log_info(fmt::format("{} tensors that are not the model's (optimizer state, ...) are left out",
                         others));
  }
  return tensors;
}

// Everything whose name begins with the prefix.
std::vector<DcpImport::Tensor> tensors_below(const DcpFolder& folder, const std::string& prefix) {
  std::vector<DcpImport::Tensor> tensors;
  for (const DcpTensor& tensor : folder.tensors()) {
    if (!tensor.spec.name.starts_with(prefix)) continue;
    tensors.push_back({&tensor, tensor.spec.name.substr(prefix.size())});
  }
  if (tensors.empty()) {
    throw Error{ErrorKind::usage,
                fmt::format("{}: has no tensor whose name begins with {}; zaya checkpoint inspect "
                            "lists them",
                            folder.path(), json_quote(prefix))};
  }
  log_warning(folder.path() +
              ": no config.json, so all tensors are taken as they are; give --config to get a "
              "folder that a model can be opened from");
  return tensors;
}

}  // namespace

int checkpoint_inspect_dcp(const std::string& path, bool as_json) {
  const DcpFolder folder(path);
  as_json ? print_json(folder) : print_text(folder);
  return 0;
}

int checkpoint_verify_dcp(const std::string& path) {
  const DcpFolder folder(path);
  Progress progress("verifying " + path, Progress::Unit::bytes,
                    static_cast<double>(folder.num_bytes()));
  Index done = 0;
  for (const DcpTensor& tensor : folder.tensors()) {
    const DcpValues values(folder, tensor);  // compares the checksums
    done += static_cast<Index>(num_bytes_of(tensor.spec));
    progress.update(static_cast<double>(done));
  }
  print(fmt::format("ok: pytorch checkpoint {}: {} tensors, {}\n", path, folder.tensors().size(),
                    bytes_text(folder.num_bytes())));
  return 0;
}

int checkpoint_import(Arguments arguments) {
  std::string path, config, prefix;
  DcpImport import;
  Command command("checkpoint import",
                  "Makes a model folder (.safetensors) of a PyTorch distributed checkpoint, of "
                  "Megatron-LM's torch_dist among them. Nothing of its pickles is executed.",
                  "zaya checkpoint import ckpt/step_1000 --config ZAYA1-base --prefix model. "
                  "--output zaya");
  command.positional("PATH", path, "The folder with .metadata and .distcp files.");
  command.option("--output", import.output, "The folder to make.", true);
  command.option("--config", config,
                 "config.json, or a model folder whose config.json and tokenizer files are copied. "
                 "Default: those in PATH, if any. Only the model's tensors are taken then, and all "
                 "of them must be there.");
  command.option("--prefix", prefix, "Takes the tensors whose names begin so, and removes it.");
  command.option("--max-shard-bytes", import.max_shard_bytes,
                 "Bytes of tensors in one .safetensors file.");
  if (!command.parse(arguments)) return 0;
  if (import.max_shard_bytes < 1) {
    throw Error{ErrorKind::usage, "zaya checkpoint import: --max-shard-bytes is 1 or more"};
  }
  const DcpFolder folder(path);
  import.copied_files = files_to_copy(config, path);
  import.tensors = import.copied_files.empty()
                       ? tensors_below(folder, prefix)
                       : tensors_of_model(folder, prefix, import.copied_files[0].first);
  Progress progress("importing tensors", Progress::Unit::bytes,
                    static_cast<double>(folder.num_bytes()));
  Index done = 0;
  DcpImportResult result;
  try {
    result = import_dcp(folder, import, [&](Index num_bytes) {
      if (stop_signal() != 0) throw Stopped{};
      done += num_bytes;
      progress.update(static_cast<double>(done));
    });
  } catch (const Stopped&) {
    log_warning("stopped; nothing was written");
    return 128 + stop_signal();
  }
  print(fmt::format("{}: {} tensors, {}, {} file(s)\n", import.output, import.tensors.size(),
                    bytes_text(result.num_bytes), result.files.size()));
  return 0;
}

}  // namespace zaya
