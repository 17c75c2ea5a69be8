// SPDX-License-Identifier: Apache-2.0
//
// `zaya checkpoint inspect | verify | digest | diff | import`: looks at, checks and compares
// checkpoints, .safetensors files and Hugging Face folders; those of PyTorch are in
// cmd_checkpoint_dcp.cc.
#include "app/cmd_checkpoint.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/commands.h"
#include "base/cli.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/progress.h"
#include "checkpoint/content.h"
#include "checkpoint/dcp.h"
#include "export/weights_digest.h"

namespace zaya {

namespace {

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

std::string_view kind_text(Content::Kind kind) {
  switch (kind) {
    case Content::Kind::checkpoint: return "checkpoint";
    case Content::Kind::safetensors: return "safetensors file";
    case Content::Kind::model_folder: return "model folder";
  }
  return "";
}

// Sizes beyond a signed integer occur beside a size of zero only.
Json size_json(std::uint64_t size) {
  const std::int64_t value = static_cast<std::int64_t>(size);
  return value >= 0 ? Json(value) : Json(static_cast<double>(size));
}

std::string bytes_text(Index num_bytes) { return human_bytes(static_cast<double>(num_bytes)); }

// Checks all checksums with a progress line.
void verify_with_progress(const Content& content, ThreadPool& pool) {
  Progress progress("verifying " + content.path(), Progress::Unit::bytes,
                    static_cast<double>(content.num_bytes()));
  Index done = 0;
  content.verify(&pool, [&](Index num_bytes) {
    done += num_bytes;
    progress.update(static_cast<double>(done));
  });
}

Json json_of(const ContentTensor& tensor, const IndexTensor* index, const Content& content) {
  Json out = Json::object();
  out.set("name", tensor.spec.name);
  out.set("dtype", name_of(tensor.spec.type));
  Json shape = Json::array();
  for (const std::uint64_t dim : tensor.spec.shape) shape.push(size_json(dim));
  out.set("shape", std::move(shape));
  out.set("bytes", static_cast<Index>(num_bytes_of(tensor.spec)));
  if (index == nullptr) return out;
  Json slices = Json::array();
  for (const IndexSlice& slice : index->slices) {
    Json item = Json::object();
    item.set("file", content.reader()->index().files[slice.file].name);
    item.set("offset", slice.offset);
    item.set("extent", slice.extent);
    item.set("checksum", slice.checksum);
    slices.push(std::move(item));
  }
  out.set("slices", std::move(slices));
  return out;
}

Json json_of(const Content& content) {
  const CheckpointReader* reader = content.reader();
  Json out = Json::object();
  out.set("kind", kind_text(content.kind()));
  out.set("path", content.path());
  if (reader != nullptr) {
    out.set("step", reader->step());
    out.set("writers", reader->index().num_writers);
  }
  Json files = Json::array(), tensors = Json::array(), metadata = Json::object();
  for (const auto& [name, num_bytes] : content.files()) {
    Json file = Json::object();
    file.set("name", name);
    file.set("bytes", num_bytes);
    files.push(std::move(file));
  }
  for (const ContentTensor& tensor : content.tensors()) {
    const IndexTensor* index = reader == nullptr ? nullptr : reader->index().find(tensor.spec.name);
    tensors.push(json_of(tensor, index, content));
  }
  for (const auto& [key, value] : content.metadata()) metadata.set(key, value);
  out.set("files", std::move(files));
  out.set("tensors", std::move(tensors));
  if (content.kind() == Content::Kind::safetensors) out.set("metadata", std::move(metadata));
  if (reader != nullptr) out.set("run_state", reader->run_state());
  return out;
}

std::string text_of(const Content& content) {
  const CheckpointReader* reader = content.reader();
  std::string out = fmt::format("{} {}\n", kind_text(content.kind()), content.path());
  if (reader != nullptr) {
    out += fmt::format("step {}, {} writer(s)\n", reader->step(), reader->index().num_writers);
  }
  for (const auto& [name, num_bytes] : content.files()) {
    out += fmt::format("file {}: {}\n", name, bytes_text(num_bytes));
  }
  for (const auto& [key, value] : content.metadata()) {
    out += fmt::format("metadata {}: {}\n", json_quote(key), json_quote(value));
  }
  std::size_t width = 0;
  double num_elements = 0;
  for (const ContentTensor& tensor : content.tensors()) {
    width = std::max(width, json_quote(tensor.spec.name).size());
    num_elements += static_cast<double>(element_count(tensor.spec));
  }
  out += fmt::format("{} tensors, {} elements, {}\n", content.tensors().size(),
                     human_count(num_elements), bytes_text(content.num_bytes()));
  for (const ContentTensor& tensor : content.tensors()) {
    out += fmt::format(
        "  {:<{}}  {}  {}{}\n", json_quote(tensor.spec.name), std::min<std::size_t>(width, 60),
        describe(tensor.spec), bytes_text(static_cast<Index>(num_bytes_of(tensor.spec))),
        tensor.pieces.size() > 1 ? fmt::format("  {} slices", tensor.pieces.size()) : "");
  }
  if (reader != nullptr) out += fmt::format("run state {}\n", reader->run_state().dump(2));
  return out;
}

int inspect(Arguments arguments) {
  std::string path;
  bool is_json = false;
  Command command("checkpoint inspect", "Lists tensors, files and run state.",
                  "zaya checkpoint inspect runs/tiny");
  command.positional("PATH", path,
                     "Checkpoint, run folder (its newest checkpoint), .safetensors file, Hugging "
                     "Face folder or PyTorch checkpoint (.metadata and .distcp files).");
  command.flag("--json", is_json, "Prints one JSON object.");
  if (!command.parse(arguments)) return 0;
  if (DcpFolder::is_one(path)) return checkpoint_inspect_dcp(path, is_json);
  const Content content(path);
  print(is_json ? json_of(content).dump() + "\n" : text_of(content));
  return 0;
}

// A folder of several checkpoints: all are verified. Error{damaged} names the first that is
// damaged.
void verify_run_folder(const std::string& folder, ThreadPool& pool) {
  const std::vector<Index> steps = list_steps(folder);
  std::string problem;
  Index num_damaged = 0, num_bytes = 0;
  for (const Index step : steps) {
    try {
      const Content content(join_path(folder, step_name(step)));
      verify_with_progress(content, pool);
      num_bytes += content.num_bytes();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::damaged) throw;
      if (num_damaged++ == 0) problem = error.message();
    }
  }
  if (num_damaged > 0) {
    throw Error{ErrorKind::damaged, fmt::format("{} ({} of {} checkpoints damaged)", problem,
                                                num_damaged, steps.size())};
  }
  print(fmt::format("ok: {}: {} checkpoints, the newest of step {}, {}\n", folder, steps.size(),
                    steps.back(), bytes_text(num_bytes)));
}

int verify(Arguments arguments) {
  std::string path;
  Command command("checkpoint verify",
                  "Checks every rule and every checksum: exits 0, or 3 with one line of reason.",
                  "zaya checkpoint verify runs/tiny");
  command.positional("PATH", path,
                     "Checkpoint, run folder (all its checkpoints), .safetensors file, Hugging "
                     "Face folder or PyTorch checkpoint.");
  if (!command.parse(arguments)) return 0;
  if (DcpFolder::is_one(path)) return checkpoint_verify_dcp(path);
  ThreadPool pool(usable_threads());
  const std::string folder = is_directory(path) ? checkpoints_folder(path) : "";
  if (!folder.empty() && !step_of_name(base_name(path)) && !list_steps(folder).empty()) {
    verify_run_folder(folder, pool);
    return 0;
  }
  const Content content(path);
  verify_with_progress(content, pool);
  print(fmt::format("ok: {} {}: {} tensors, {}\n", kind_text(content.kind()), content.path(),
                    content.tensors().size(), bytes_text(content.num_bytes())));
  return 0;
}

// Digest of a model's weights under their native names.
std::string digest_of_weights(const std::string& path, ThreadPool& pool) {
  const ModelOrigin source = find_model(path);
  Progress progress("reading " + source.path, Progress::Unit::items, 0);
  double done = 0;
  return weights_digest(source, pool, [&](Index count) {
    done += static_cast<double>(count);
    progress.update(done);
  });
}

int digest(Arguments arguments) {
  std::string path;
  bool is_weights = false;
  Command command("checkpoint digest",
                  "Prints a digest of the logical content: names, types, shapes, values and run "
                  "state, not the layout in files nor what run_state.volatile holds.",
                  "zaya checkpoint digest runs/tiny");
  command.positional("PATH", path,
                     "Checkpoint, run folder (its newest checkpoint), .safetensors file or "
                     "Hugging Face folder.");
  command.flag("--weights", is_weights,
               "Only the model's weights as f32 under their native names: equal for a checkpoint "
               "and its exports in either layout.");
  if (!command.parse(arguments)) return 0;
  ThreadPool pool(usable_threads());
  if (is_weights) {
    print(digest_of_weights(path, pool) + "\n");
    return 0;
  }
  const Content content(path);
  verify_with_progress(content, pool);
  print(content_digest(content, &pool) + "\n");
  return 0;
}

Json json_of(const Difference& difference) {
  Json out = Json::object();
  out.set("where", difference.where);
  out.set("text", difference.text);
  out.set("num_different", difference.num_different);
  out.set("first", difference.first);
  out.set("max_difference", difference.max_difference);
  return out;
}

int diff(Arguments arguments) {
  std::vector<std::string> paths;
  Index limit = 20;
  bool is_json = false;
  Command command("checkpoint diff",
                  "Names the tensors and state entries that differ, and by how much. Exits 0 when "
                  "the contents are equal bit by bit, 3 when they differ.",
                  "zaya checkpoint diff runs/a runs/b");
  command.positionals("A B", paths,
                      "Two checkpoints, run folders, .safetensors files or Hugging Face folders.");
  command.option("--limit", limit, "Most lines to print; 0: all.");
  command.flag("--json", is_json, "Prints one JSON object with all differences.");
  if (!command.parse(arguments)) return 0;
  if (paths.size() != 2) {
    throw Error{ErrorKind::usage,
                fmt::format("zaya checkpoint diff: needs two paths, got {}", paths.size())};
  }
  const Content a(paths[0]), b(paths[1]);
  const std::vector<Difference> differences = compare_contents(a, b);
  const int code = differences.empty() ? 0 : exit_code(ErrorKind::damaged);
  if (is_json) {
    Json list = Json::array();
    for (const Difference& difference : differences) list.push(json_of(difference));
    Json out = Json::object();
    out.set("equal", differences.empty());
    out.set("differences", std::move(list));
    print(out.dump() + "\n");
    return code;
  }
  if (differences.empty()) print("equal\n");
  const std::size_t count = limit <= 0
                                ? differences.size()
                                : std::min(differences.size(), static_cast<std::size_t>(limit));
  for (std::size_t i = 0; i < count; ++i) {
    print(fmt::format("{}: {}\n", differences[i].where, differences[i].text));
  }
  if (count < differences.size()) {
    print(fmt::format("and {} more (--limit 0 prints all)\n", differences.size() - count));
  }
  return code;
}

}  // namespace

int command_checkpoint(Arguments arguments) {
  const std::vector<std::string> names = {"inspect", "verify", "digest", "diff", "import"};
  const std::string name = arguments.empty() ? "--help" : arguments[0];
  if (name == "--help") {
    print(
        "usage: zaya checkpoint inspect|verify|digest|diff|import PATH...  "
        "(zaya checkpoint verify --help explains one)\n\n"
        "  inspect  lists tensors, files and run state\n"
        "  verify   checks every rule and every checksum: exits 0, or 3 with one line of reason\n"
        "  digest   prints xxh3-128:<hex> over the logical content\n"
        "  diff     names what differs between two of them, and by how much: exits 0 or 3\n"
        "  import   makes a model folder of a PyTorch distributed checkpoint\n\n"
        "Example:\n  zaya checkpoint verify runs/tiny\n");
    return arguments.empty() ? exit_code(ErrorKind::usage) : 0;
  }
  const Arguments rest = arguments.subspan(1);
  if (name == "inspect") return inspect(rest);
  if (name == "verify") return verify(rest);
  if (name == "digest") return digest(rest);
  if (name == "diff") return diff(rest);
  if (name == "import") return checkpoint_import(rest);
  throw Error{ErrorKind::usage, fmt::format("unknown command checkpoint {}{} (see zaya checkpoint "
                                            "--help)",
                                            name, did_you_mean(name, names))};
}

}  // namespace zaya
