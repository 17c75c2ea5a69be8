// SPDX-License-Identifier: Apache-2.0
//
// Options that all commands with --model share: where the model is, and how it computes.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/cli.h"
#include "base/thread_pool.h"
#include "export/model_folder.h"

namespace zaya {

struct ModelOptions {
  std::string model, dtype = "f32", skip_output, instruction_set = "auto";
  Index threads = 0;

  void declare(Command& command, const std::string& default_dtype);
};

// A model with the pool and backend it runs on.
struct RunningModel {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Backend> backend;
  OpenModel open;
  bool skip_is_identity = false;
};

// Opens --model and logs what was opened, the meaning of the skip class included.
RunningModel start_model(const ModelOptions& options, const OpenOptions& open_options);

}  // namespace zaya
