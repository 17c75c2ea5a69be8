// SPDX-License-Identifier: Apache-2.0
//
// `zaya export`: writes a model as a folder that other programs load, and proves it.
#include <fmt/core.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <utility>

#include "app/commands.h"
#include "base/cli.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/stop.h"
#include "base/thread_pool.h"
#include "export/hf_write.h"
#include "train/memory.h"

namespace zaya {

namespace {

struct Options {
  std::string checkpoint, preset, output, layout = "native", dtype, max_shard_size = "5GB";
  std::string instruction_set = "auto";
  Index seed = 1, threads = 0;
  bool skips_proof = false, is_json = false;
};

// "5GB" (powers of 1000), "5GiB" (powers of 1024), or bytes.
Index parse_size(const std::string& text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {{"", 1},
                                                                   {"B", 1},
                                                                   {"KB", 1e3},
                                                                   {"MB", 1e6},
                                                                   {"GB", 1e9},
                                                                   {"TB", 1e12},
                                                                   {"KiB", 1024},
                                                                   {"MiB", 1048576.0},
                                                                   {"GiB", 1073741824.0},
                                                                   {"TiB", 1099511627776.0}};
  double number = 0;
  const char* last = text.data() + text.size();
  const auto [end, failure] = std::from_chars(text.data(), last, number, std::chars_format::fixed);
  for (const auto& [unit, factor] : kUnits) {
    if (failure != std::errc{} || std::string_view(end, last) != unit) continue;
    const double bytes = number * factor;
    if (bytes >= 1 && bytes < 9e18) return static_cast<Index>(bytes);
  }
  throw Error{ErrorKind::usage,
              fmt::format("zaya export: --max-shard-size {}: give a size such as 5GB, 800MiB or a "
                          "number of bytes",
                          text)};
}

bool parse_options(Options& o, Arguments arguments) {
  Command command("export",
                  "Writes a model as a Hugging Face folder and proves that it computes "
                  "the same.",
                  "zaya export --checkpoint runs/quickstart --output exported");
  command.option("--checkpoint", o.checkpoint,
                 "Checkpoint, run folder (its newest checkpoint) or published model folder.");
  command.option("--preset", o.preset,
                 "Instead of --checkpoint: fresh weights of this shape, such as zaya1-8b.");
  command.option("--seed", o.seed, "Seed of fresh weights.");
  command.option("--output", o.output, "Folder to write; it must not exist yet.", true);
  command.choice("--layout", o.layout, {"native", "legacy"},
                 "Names and configuration: of today's transformers, or Zyphra's original.");
  command.choice("--dtype", o.dtype, {"", "f32", "bf16"},
                 "Type of the stored weights; default: as the source stores them.");
  command.option("--max-shard-size", o.max_shard_size, "Largest file: 5GB, 800MiB or bytes.");
  command.flag("--no-proof", o.skips_proof, "Don't compute with the folder before it is named.");
  command.flag("--json", o.is_json, "Prints the result as JSON.");
  command.option("--threads", o.threads, "Threads; 0: all that the process may use.");
  command.choice("--instruction-set", o.instruction_set,
                 {"auto", "avx512_bf16", "avx512", "avx2", "portable"}, "Kernels of the proof.");
  if (!command.parse(arguments)) return false;
  if (o.checkpoint.empty() == o.preset.empty()) {
    throw Error{ErrorKind::usage, "zaya export: give one of --checkpoint, --preset"};
  }
  return true;
}

void print_result(const Options& o, const ExportOptions& options, const ExportResult& r) {
  if (o.is_json) {
    Json out = Json::object(), files = Json::array();
    for (const std::string& file : r.files) files.push(file);
    out.set("path", options.output);
    out.set("layout", o.layout);
    out.set("dtype", name_of(options.dtype));
    out.set("tensors", r.num_tensors);
    out.set("elements", r.num_elements);
    out.set("bytes", r.num_bytes);
    out.set("files", std::move(files));
    out.set("max_deviation", r.max_deviation ? Json(*r.max_deviation) : Json());
    std::fputs((out.dump() + "\n").c_str(), stdout);
    return;
  }
  std::fputs(
      fmt::format("{}: {} tensors, {} elements, {} in {} file{}, {} layout, {}\n", options.output,
                  r.num_tensors, human_count(static_cast<double>(r.num_elements)),
                  human_bytes(static_cast<double>(r.num_bytes)), r.files.size(),
                  r.files.size() == 1 ? "" : "s", o.layout, name_of(options.dtype))
          .c_str(),
      stdout);
}

}  // namespace

int command_export(Arguments arguments) {
  Options o;
  if (!parse_options(o, arguments)) return 0;
  ExportOptions options;
  options.output = o.output;
  options.layout = o.layout == "legacy" ? Layout::legacy : Layout::native;
  options.max_shard_bytes = parse_size(o.max_shard_size);
  options.available_bytes = available_bytes();
  if (path_kind(o.output) != PathKind::absent) {
    throw Error{ErrorKind::usage,
                o.output + ": exists already; name another folder or remove it first"};
  }
  ThreadPool pool(thread_count(o.threads));
  const ModelOrigin source = o.preset.empty() ? find_model(o.checkpoint)
                                              : fresh_model(model_preset(o.preset), o.seed, pool);
  options.dtype = o.dtype.empty() ? stored_dtype(source) : compute_dtype(run_numerics(o.dtype));
  const Backend backend = make_cpu_backend(run_numerics(name_of(options.dtype)), pool,
                                           parse_instruction_set(o.instruction_set));
  std::optional<Progress> progress;
  const auto observe = [&](Index done, Index total) {
    if (!progress) {
      progress.emplace("writing " + o.output, Progress::Unit::bytes, static_cast<double>(total));
    }
    progress->update(static_cast<double>(done));
    if (stop_signal() > 0) throw Error{ErrorKind::hardware, "stopped; nothing was kept"};
  };
  try {
    const ExportResult result =
        export_model(source, o.skips_proof ? nullptr : &backend, options, observe);
    if (result.max_deviation) {
      log_info(
          fmt::format("proof: the logits of {} equal those of {} in every bit (largest "
                      "deviation {})",
                      o.output, source.path, *result.max_deviation));
    }
    print_result(o, options, result);
    return 0;
  } catch (const Error& error) {
    if (stop_signal() == 0) throw;
    log_warning(error.message());
    return 128 + stop_signal();
  }
}

}  // namespace zaya
