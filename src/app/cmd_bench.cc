// SPDX-License-Identifier: Apache-2.0
//
// `zaya bench`: how fast this machine runs the work of training and generation, as shares of what
// it can do at best.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "app/build_info.h"
#include "app/commands.h"
#include "backend/bench/kernels.h"
#include "base/bench.h"
#include "base/cli.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint_bench.h"
#include "data/data_bench.h"
#include "eval/decode_bench.h"
#include "model/config.h"
#include "optim/muon_bench.h"
#include "train/step_bench.h"

namespace zaya {

namespace {

// A folder that goes with the object.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& parent) {
    path_ = join_path(parent, fmt::format(".zaya-bench-{}", getpid()));
    make_directories(path_);
  }
  ~WorkFolder() {
    try {
      remove_all(path_);
    } catch (const Error& error) {
      log_warning(error.message());
    }
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Options of all kinds of measurement.
struct Common {
  std::string numerics = "bf16", instruction_set = "auto", folder = ".", preset;
  Index threads = 0;
  double seconds = 0;
  bool is_json = false;

  void declare(Command& command, double default_seconds) {
    seconds = default_seconds;
    command.option("--seconds", seconds, "Time to measure each row, or each program.");
    command.option("--threads", threads, "Number of threads; 0: all of this machine.");
    command.flag("--json", is_json, "Prints JSON.");
  }
  void declare_numerics(Command& command) {
    command.choice("--dtype", numerics, {"bf16", "f32"}, "Element type of products.");
    command.choice("--instruction-set", instruction_set,
                   {"auto", "portable", "avx2", "avx512", "avx512_bf16"},
                   "Instructions to use at most.");
  }
  int num_threads() const { return thread_count(threads); }
};

BenchReport start_report(const Common& common, const std::string& backend) {
  BenchReport report;
  report.machine = {{"processor", processor_name()},
                    {"threads", fmt::format("{}", common.num_threads())}};
  if (!backend.empty()) {
    report.machine.emplace_back("backend", backend);
    report.machine.emplace_back("dtype", common.numerics);
  }
  report.machine.emplace_back("version", kVersion);
  report.machine.emplace_back("commit", kCommit);
  return report;
}

void print(const BenchReport& report, bool is_json) {
  std::fputs((is_json ? report.to_json().dump(2) + "\n" : report.to_text()).c_str(), stdout);
}

void append(std::vector<BenchRow>& rows, std::vector<BenchRow> more) {
  for (BenchRow& row : more) rows.push_back(std::move(row));
}

int bench_gemm(Arguments arguments) {
  Common common;
  Command command("bench gemm", "Speed of matrix products of all kinds.",
                  "zaya bench gemm --dtype f32");
  common.declare(command, 1);
  common.declare_numerics(command);
  if (!command.parse(arguments)) return 0;
  ThreadPool pool(common.num_threads());
  const Backend backend = make_cpu_backend(run_numerics(common.numerics), pool,
                                           parse_instruction_set(common.instruction_set));
  BenchReport report = start_report(common, backend.name);
  report.rows = bench_products(backend, common.seconds);
  print(report, common.is_json);
  return 0;
}

int bench_kernel_families(Arguments arguments) {
  Common common;
  std::vector<std::string> only;
  Command command("bench kernels", "Each kernel family against the yardstick that limits it.",
                  "zaya bench kernels --only attention --only experts");
  common.declare(command, 2);
  common.declare_numerics(command);
  command.option(
      "--only", only,
      "experts, attention, prologue, elementwise, muon, loss; all of them if not given.");
  if (!command.parse(arguments)) return 0;
  const std::vector<std::string> families{"experts",     "attention", "prologue",
                                          "elementwise", "muon",      "loss"};
  for (const std::string& name : only) {
    if (std::find(families.begin(), families.end(), name) == families.end()) {
      throw Error{ErrorKind::usage, fmt::format("bench kernels --only: unknown family {}{}", name,
                                                did_you_mean(name, families))};
    }
  }
  const auto wants = [&](const char* name) {
    return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
  };
  ThreadPool pool(common.num_threads());
  const Backend backend = make_cpu_backend(run_numerics(common.numerics), pool,
                                           parse_instruction_set(common.instruction_set));
  BenchReport report = start_report(common, backend.name);
  const double s = common.seconds;
  if (wants("experts")) append(report.rows, bench_experts(backend, s));
  if (wants("attention")) append(report.rows, bench_attention(backend, s));
  if (wants("prologue")) append(report.rows, bench_prologue(backend, pool, s));
  if (wants("elementwise")) append(report.rows, bench_elementwise(backend, pool, s));
  if (wants("muon")) append(report.rows, bench_muon(model_preset("s2"), backend, pool, s));
  if (wants("loss")) append(report.rows, bench_loss(backend));
  print(report, common.is_json);
  return 0;
}

void print_profile(const StepBenchResult& result) {
  std::fputs("\nwhere the time of a step goes\n", stdout);
  for (const auto& [name, share] : result.profile) {
    const auto width = static_cast<std::size_t>(share * 60 + 0.5);
    std::fputs(fmt::format("  {:<34} {:>5.1f} %  {}\n", name, 100 * share, std::string(width, '#'))
                   .c_str(),
               stdout);
  }
  std::fputs(fmt::format("  {:<34} {:>5.1f} %\n", "sum", 100 * result.profile_sum).c_str(), stdout);
}

int bench_training_step(Arguments arguments) {
  Common common;
  StepBenchOptions options;
  bool shows_profile = false;
  Command command("bench step", "Whole training steps of a model shape.",
                  "zaya bench step --preset s2 --profile");
  common.declare(command, options.seconds);
  common.declare_numerics(command);
  command.option("--preset", options.preset, "Shape: tiny, quickstart, s1, s2, ...");
  command.option("--optimizer", options.optimizer, "adamw or muon; adamw for s1, else muon.");
  command.option("--batch-tokens", options.batch_tokens, "Tokens of a step; 0: as the shape says.");
  command.option("--micro-batch-tokens", options.micro_batch_tokens, "Tokens of a pass; 0: 4,096.");
  command.option("--sequence-length", options.sequence_length, "0: as the shape says.");
  command.option("--directory", common.folder, "Where temporary token files go.");
  command.flag("--profile", shows_profile, "Prints where the time of a step goes.");
  if (!command.parse(arguments)) return 0;
  options.numerics = common.numerics;
  options.instruction_set = common.instruction_set;
  options.seconds = common.seconds;
  ThreadPool pool(common.num_threads());
  const WorkFolder folder(common.folder);
  const StepBenchResult result = bench_step(options, folder.path(), pool);
  BenchReport report = start_report(common, common.instruction_set);
  report.rows = result.rows;
  if (!common.is_json) {
    print(report, false);
    if (shows_profile) print_profile(result);
    return 0;
  }
  Json json = report.to_json();
  Json profile = Json::object();
  for (const auto& [name, share] : result.profile) profile.set(name, share);
  json.set("profile", std::move(profile));
  json.set("profile_sum", result.profile_sum);
  std::fputs((json.dump(2) + "\n").c_str(), stdout);
  return 0;
}

int bench_generation(Arguments arguments) {
  Common common;
  common.preset = "s2";
  Command command("bench decode", "Generation: one sequence, sixteen together, and a long prompt.",
                  "zaya bench decode --preset s2");
  common.declare(command, 5);
  common.declare_numerics(command);
  command.option("--preset", common.preset, "Shape: tiny, quickstart, s1, s2, ...");
  if (!command.parse(arguments)) return 0;
  ThreadPool pool(common.num_threads());
  const Backend backend = make_cpu_backend(run_numerics(common.numerics), pool,
                                           parse_instruction_set(common.instruction_set));
  BenchReport report = start_report(common, backend.name);
  report.rows = bench_decode(model_preset(common.preset), backend, pool, common.seconds);
  print(report, common.is_json);
  return 0;
}

int bench_text(Arguments arguments) {
  Common common;
  DataBenchOptions options;
  Command command("bench data", "Training a tokenizer, and text to tokens.",
                  "zaya bench data --input corpus.jsonl --vocabulary-size 32768");
  common.declare(command, 0);
  command.option("--input", options.input, "JSONL or text file; without it text is made up.");
  command.option("--bytes", options.text_bytes, "Bytes of made-up text.");
  command.option("--vocabulary-size", options.vocabulary_size, "Tokens of the tokenizer.");
  command.option("--rounds", options.rounds, "How often each is measured.");
  command.option("--directory", common.folder, "Where temporary files go.");
  if (!command.parse(arguments)) return 0;
  ThreadPool pool(common.num_threads());
  const WorkFolder folder(common.folder);
  BenchReport report = start_report(common, "");
  report.rows = bench_data(options, folder.path(), pool);
  print(report, common.is_json);
  return 0;
}

int bench_saving(Arguments arguments) {
  Common common;
  Index mebibytes = 1024, rounds = 5;
  Command command("bench checkpoint", "Snapshot, writing and loading of checkpoints.",
                  "zaya bench checkpoint --directory runs --mebibytes 2048");
  common.declare(command, 0);
  command.option("--mebibytes", mebibytes, "Size of the state.");
  command.option("--rounds", rounds, "How often each is measured.");
  command.option("--directory", common.folder, "A folder on the disk to measure.");
  if (!command.parse(arguments)) return 0;
  if (mebibytes < 8 || rounds < 1) {
    throw Error{ErrorKind::usage, "bench checkpoint: --mebibytes from 8, --rounds from 1"};
  }
  ThreadPool pool(common.num_threads());
  const WorkFolder folder(common.folder);
  BenchReport report = start_report(common, "");
  report.rows = bench_checkpoint(folder.path(), mebibytes << 20, rounds, pool);
  print(report, common.is_json);
  return 0;
}

constexpr const char* kUsage =
    "usage: zaya bench KIND [options]   (zaya bench KIND --help)\n\n"
    "  step        whole training steps of a shape, with --profile where their time goes\n"
    "  gemm        matrix products\n"
    "  kernels     kernel families: experts, attention, norms, optimizers, loss\n"
    "  decode      generation\n"
    "  data        tokenizer training, text to tokens\n"
    "  checkpoint  snapshot, write and load\n";

}  // namespace

int command_bench(Arguments arguments) {
  if (arguments.empty() || arguments[0] == "--help") {
    std::fputs(kUsage, stdout);
    return arguments.empty() ? 2 : 0;
  }
  const std::string& kind = arguments[0];
  const Arguments rest = arguments.subspan(1);
  if (kind == "step") return bench_training_step(rest);
  if (kind == "gemm") return bench_gemm(rest);
  if (kind == "kernels") return bench_kernel_families(rest);
  if (kind == "decode") return bench_generation(rest);
  if (kind == "data") return bench_text(rest);
  if (kind == "checkpoint") return bench_saving(rest);
  const std::vector<std::string> kinds{"step", "gemm", "kernels", "decode", "data", "checkpoint"};
  throw Error{ErrorKind::usage,
              fmt::format("zaya bench: unknown kind {}{}", kind, did_you_mean(kind, kinds))};
}

}  // namespace zaya
