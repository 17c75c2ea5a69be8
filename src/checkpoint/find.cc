// SPDX-License-Identifier: Apache-2.0
//
// Which checkpoint to continue from: the newest one whose every byte is right.
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/reader.h"

namespace zaya {

namespace {

constexpr std::string_view kPartialSuffix = ".partial";
constexpr int kSearchDepth = 3;

// Step folders below `folder`, as paths; for messages only, so it looks neither deep nor long.
void find_deeper(const std::string& folder, int depth, std::vector<std::string>& found) {
  constexpr std::size_t kEnough = 100;
  for (const std::string& name : list_directory(folder)) {
    const std::string path = join_path(folder, name);
    if (found.size() >= kEnough || !is_directory(path)) continue;
    if (step_of_name(name)) {
      found.push_back(path);
    } else if (depth > 0 && !name.starts_with('.')) {
      find_deeper(path, depth - 1, found);
    }
  }
}

// Names in a folder that are neither hidden nor of an unfinished save.
std::vector<std::string> foreign_names(const std::string& folder) {
  std::vector<std::string> names;
  for (const std::string& name : list_directory(folder)) {
    const bool is_unfinished = name.starts_with("step-") && name.ends_with(kPartialSuffix);
    if (!is_unfinished && !name.starts_with('.')) names.push_back(name);
  }
  return names;
}

// The folder holds no step folder itself. Says what it holds instead, if anything.
void refuse_foreign(const std::string& folder) {
  const std::vector<std::string> names = foreign_names(folder);
  if (names.empty()) return;
  std::vector<std::string> deeper;
  find_deeper(folder, kSearchDepth, deeper);
  if (!deeper.empty()) {
    throw Error{
        ErrorKind::damaged,
        fmt::format("{}: no checkpoint lies directly in it, but {} deeper ({}): move it up "
                    "or name its folder",
                    folder, deeper.size() == 1 ? "one does" : fmt::format("{} do", deeper.size()),
                    deeper.back())};
  }
  std::string list;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 5); ++i) {
    list += (i > 0 ? ", " : "") + names[i];
  }
  throw Error{ErrorKind::damaged,
              fmt::format("{}: no checkpoint in it, only other things ({}{}): name another folder",
                          folder, list, names.size() > 5 ? ", ..." : "")};
}

bool is_step_folder(const std::string& path) {
  return step_of_name(base_name(path)).has_value() || is_file(join_path(path, kIndexName));
}

}  // namespace

std::string checkpoints_folder(const std::string& path) {
  const std::string inner = join_path(path, "checkpoints");
  return is_directory(inner) ? inner : path;
}

std::vector<Index> list_steps(const std::string& folder) {
  std::vector<Index> steps;
  for (const std::string& name : list_directory(folder)) {
    const std::optional<Index> step = step_of_name(name);
    if (step && is_directory(join_path(folder, name))) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

FoundCheckpoint find_newest(const std::string& path, ThreadPool* pool) {
  if (!is_directory(path)) {
    throw Error{ErrorKind::usage, path + ": no such folder of checkpoints"};
  }
  if (is_step_folder(path)) {
    CheckpointReader(path).verify(pool);
    return {path, {}};
  }
  const std::string folder = checkpoints_folder(path);
  std::vector<Index> steps = list_steps(folder);
  if (steps.empty()) {
    refuse_foreign(folder);
    return {};
  }
  FoundCheckpoint found;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const std::string candidate = join_path(folder, step_name(*step));
    try {
      CheckpointReader(candidate).verify(pool);
      found.path = candidate;
      break;
    } catch (const Error& error) {
      found.problems.push_back(error.message());
      log_warning(
          fmt::format("checkpoint {} is not usable: {}", step_name(*step), error.message()));
    }
  }
  if (found.path.empty()) {
    throw Error{ErrorKind::damaged,
                fmt::format("{}: none of its {} checkpoints is usable; the newest: {}", folder,
                            steps.size(), found.problems.front())};
  }
  if (!found.problems.empty()) {
    log_warning(fmt::format("falling back to checkpoint {}", found.path));
  }
  return found;
}

std::string find_newest_checkpoint(const std::string& path, ThreadPool* pool) {
  return find_newest(path, pool).path;
}

}  // namespace zaya
