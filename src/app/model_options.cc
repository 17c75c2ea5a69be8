// SPDX-License-Identifier: Apache-2.0
#include "app/model_options.h"

#include <fmt/core.h>

#include "base/clock.h"
#include "base/log.h"

namespace zaya {

void ModelOptions::declare(Command& command, const std::string& default_dtype) {
  dtype = default_dtype;
  command.option("--model", model, "Checkpoint folder, run folder or published model folder.",
                 true);
  command.choice("--dtype", dtype, {"f32", "bf16"}, "Operands of matrix products.");
  command.choice("--skip-output", skip_output, {"", "zero", "identity"},
                 "What a token that chooses the skip class gets; default: as the model's layout.");
  command.option("--threads", threads, "Threads; 0: all that the process may use.");
  command.choice("--instruction-set", instruction_set,
                 {"auto", "avx512_bf16", "avx512", "avx2", "portable"}, "Kernels to use.");
}

RunningModel start_model(const ModelOptions& options, const OpenOptions& open_options) {
  RunningModel running;
  const int threads = thread_count(options.threads);
  running.pool = std::make_unique<ThreadPool>(threads);
  const Numerics numerics = run_numerics(options.dtype);
  running.backend = std::make_unique<Backend>(
      make_cpu_backend(numerics, *running.pool, parse_instruction_set(options.instruction_set)));
  running.open = open_model(options.model, *running.backend, open_options);
  const bool is_asked = !options.skip_output.empty();
  const std::string meaning = is_asked ? options.skip_output : running.open.config.skip_output;
  running.skip_is_identity = meaning == "identity";
  log_info(fmt::format(
      "{}: {} parameters, {}, {}, {} threads, skip class gives {} ({})", options.model,
      human_count(static_cast<double>(running.open.params->num_parameters())),
      running.open.layout ? fmt::format("{} layout", name_of(*running.open.layout)) : "checkpoint",
      running.backend->name, threads, meaning,
      is_asked ? "--skip-output" : running.open.skip_reason));
  return running;
}

}  // namespace zaya
