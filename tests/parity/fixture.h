// SPDX-License-Identifier: Apache-2.0
//
// Fixture folders of tests/data/zaya: small models and what the published code computes on them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/thread_pool.h"
#include "checkpoint/safetensors.h"
#include "eval/score.h"
#include "export/model_folder.h"

namespace zaya {

// Names of the fixture folders of one layout: "zaya" or "zaya-legacy".
std::vector<std::string> fixture_names(const std::string& layout);
std::string fixture_path(const std::string& layout, const std::string& name);

// A fixture's model on a backend: the CPU's in f32, or the reference's.
struct FixtureModel {
  FixtureModel(const std::string& folder, bool uses_reference, int threads = 2);

  std::string folder;
  ThreadPool pool;
  Backend backend;
  OpenModel open;
  std::unique_ptr<Arena> gradient_arena;
  Gradients gradients;

  ScoreInput inputs() const;
  Json json(const std::string& name) const;
};

std::vector<double> stored_values(const StoredTensor& tensor);
// ||a - b|| / ||b|| over entries whose position is kept; keep empty = all.
double relative_error(const std::vector<double>& a, const std::vector<double>& b,
                      const std::vector<std::uint8_t>& keep);

}  // namespace zaya
