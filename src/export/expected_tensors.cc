// SPDX-License-Identifier: Apache-2.0
#include "export/expected_tensors.h"

#include "base/file.h"
#include "base/json.h"
#include "model/model.h"

namespace zaya {

std::vector<FolderTensor> expected_tensors(const std::string& config_path) {
  const HfConfig config =
      parse_hf_config(Json::parse(read_file(config_path), config_path), config_path);
  ParamSet params;
  const Model model(config.model, params);
  std::vector<FolderTensor> tensors;
  for (const Param& param : params.all()) {
    const std::vector<FolderTensor> stored = stored_tensors(param, config.layout, config.model);
    tensors.insert(tensors.end(), stored.begin(), stored.end());
  }
  return tensors;
}

}  // namespace zaya
