// SPDX-License-Identifier: Apache-2.0
#include "app/commands.h"

namespace zaya {

std::span<const CommandEntry> all_commands() {
  static constexpr CommandEntry kCommands[] = {
      {"tokenizer", "trains tokenizers; turns text into ids and back", command_tokenizer},
      {"prepare", "turns text and JSONL files into token files", command_prepare},
      {"dataset", "looks into token files, checks and joins them", command_dataset},
      {"train", "trains a model, or continues a run", command_train},
      {"generate", "continues prompts", command_generate},
      {"score", "loss and log-probabilities of given tokens", command_score},
      {"eval", "held-out perplexity", command_eval},
      {"export", "writes a model as a Hugging Face folder and proves it", command_export},
      {"checkpoint", "looks at, verifies and compares checkpoints and .safetensors files",
       command_checkpoint},
      {"bench", "measures this machine at the work of training and generation", command_bench},
      {"version", "version, commit, compiler, backends, instruction set", command_version},
  };
  return kCommands;
}

}  // namespace zaya
