// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/retention.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/fault_point.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/reader.h"

namespace zaya {

std::vector<Index> steps_to_prune(std::span<const Index> steps, Index published,
                                  const Retention& retention) {
  std::vector<Index> out;
  if (retention.keep <= 0) return out;
  const Index num_old = static_cast<Index>(steps.size()) - retention.keep;
  for (Index i = 0; i < num_old; ++i) {
    const Index step = steps[i];
    const bool is_kept = retention.keep_every > 0 && step % retention.keep_every == 0;
    if (!is_kept && step != published) out.push_back(step);
  }
  return out;
}

std::vector<std::string> prune_checkpoints(const std::string& folder, Index published,
                                           const Retention& retention) {
  std::vector<std::string> removed;
  try {
    fault_point("checkpoint.before_prune");
    std::vector<Index> complete;
    for (const Index step : list_steps(folder)) {
      try {
        const CheckpointReader reader(join_path(folder, step_name(step)));
        complete.push_back(step);
      } catch (const Error& error) {
        log_warning(fmt::format("left alone while pruning: {}", error.message()));
      }
    }
    for (const Index step : steps_to_prune(complete, published, retention)) {
      const std::string path = join_path(folder, step_name(step));
      rename_durably(path, path + ".partial");
      fault_point("checkpoint.prune");
      remove_all(path + ".partial");
      removed.push_back(path);
    }
  } catch (const Error& error) {
    log_warning(fmt::format("old checkpoints could not be removed: {}", error.message()));
  }
  return removed;
}

void remove_leftovers(const std::string& folder) {
  for (const std::string& name : list_directory(folder)) {
    if (!name.starts_with("step-") || !name.ends_with(".partial")) continue;
    const std::string path = join_path(folder, name);
    log_warning(fmt::format("{}: removing what an unfinished save or prune left behind", path));
    remove_all(path);
  }
}

}  // namespace zaya
