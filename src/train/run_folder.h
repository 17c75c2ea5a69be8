// SPDX-License-Identifier: Apache-2.0
//
// The folder of a run: config.toml, metrics.jsonl, log.txt, checkpoints/. Decides whether a run
// starts, continues or is refused, before anything is changed.
#pragma once

#include <string>

namespace zaya {

// --resume: continue if there is something to continue; start afresh; continue from a given
// checkpoint (a step folder, checkpoints folder or run folder).
struct ResumeChoice {
  enum class Kind { automatic, never, path } kind = Kind::automatic;
  std::string path;
};
ResumeChoice parse_resume(const std::string& text);

struct RunFolder {
  std::string path;
  std::string config() const { return path + "/config.toml"; }
  std::string metrics() const { return path + "/metrics.jsonl"; }
  std::string log() const { return path + "/log.txt"; }
  std::string checkpoints() const { return path + "/checkpoints"; }
};

// The step folder to continue from, or "" for a fresh start. A folder that holds a run but no
// usable checkpoint, or files that no run makes, is refused: a run never starts from zero in
// silence. With Kind::never a folder that holds a run is refused unless `overwrite`.
std::string find_start(const RunFolder& folder, const ResumeChoice& resume, bool overwrite);

}  // namespace zaya
