// SPDX-License-Identifier: Apache-2.0
#include "train/run_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "checkpoint/reader.h"
#include "text/tokenizer_cache.h"
#include "train/metrics.h"
#include "train/tensorboard.h"

namespace zaya {

namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error{ErrorKind::usage, text}; }

bool is_partial(const std::string& name) { return name.ends_with(".partial"); }

// Names in the folder that a run does not make before its first checkpoint.
std::vector<std::string> foreign_names(const RunFolder& folder) {
  std::vector<std::string> names;
  for (const std::string& name : list_directory(folder.path)) {
    const bool is_ours = name == "config.toml" || name == "metrics.jsonl" || name == "log.txt" ||
                         name == "checkpoints" || name == "tokenizer.json" ||
                         name == "tokenizer_config.json" || is_event_file(name) ||
                         is_tokenizer_cache(name) || is_partial(name);
    if (!is_ours) names.push_back(name);
  }
  if (is_directory(folder.checkpoints())) {
    for (const std::string& name : list_directory(folder.checkpoints())) {
      if (!is_partial(name)) names.push_back("checkpoints/" + name);
    }
  }
  return names;
}

std::string listing(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 6; ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() > 6 ? fmt::format("{} and {} more", text, names.size() - 6) : text;
}

// Does the folder hold a run: steps that were done, or checkpoints?
bool holds_run(const RunFolder& folder) {
  if (!is_directory(folder.path)) return false;
  return last_metrics_step(folder.metrics()) > 0 || !foreign_names(folder).empty();
}

}  // namespace

ResumeChoice parse_resume(const std::string& text) {
  if (text == "auto") return {ResumeChoice::Kind::automatic, ""};
  if (text == "never") return {ResumeChoice::Kind::never, ""};
  if (path_kind(text) != PathKind::directory) {
    refuse(fmt::format("--resume {}: no such folder; use auto, never, or the path of a checkpoint",
                       text));
  }
  return {ResumeChoice::Kind::path, text};
}

std::string find_start(const RunFolder& folder, const ResumeChoice& resume, bool overwrite) {
  if (path_kind(folder.path) == PathKind::file) {
    refuse(fmt::format("{}: run.directory is a file", folder.path));
  }
  if (resume.kind == ResumeChoice::Kind::path) return find_newest_checkpoint(resume.path);
  if (resume.kind == ResumeChoice::Kind::never) {
    if (holds_run(folder) && !overwrite) {
      refuse(
          fmt::format("{}: holds a run; continue it with --resume auto, or replace it with "
                      "run.overwrite=true",
                      folder.path));
    }
    return "";
  }
  if (!is_directory(folder.path)) return "";
  const std::string newest = is_directory(folder.checkpoints())
                                 ? find_newest_checkpoint(folder.checkpoints())
                                 : std::string();
  if (!newest.empty()) return newest;
  const Index steps = last_metrics_step(folder.metrics());
  const std::vector<std::string> foreign = foreign_names(folder);
  if (steps > 0 || !foreign.empty()) {
    refuse(fmt::format(
        "{}: has no checkpoint to continue from but holds {}; name an empty folder, "
        "give --resume PATH, or start from zero with --resume never "
        "run.overwrite=true",
        folder.path, steps > 0 ? fmt::format("metrics of {} steps", steps) : listing(foreign)));
  }
  return "";
}

}  // namespace zaya
