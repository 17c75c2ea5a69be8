// SPDX-License-Identifier: Apache-2.0
#include "parity/fixture.h"

#include <cmath>
#include <cstring>

#include "base/file.h"
#include "test_main.h"

namespace zaya {

namespace {

std::vector<std::int64_t> integers(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor stored = file.tensor(name);
  std::vector<std::int64_t> values(stored.bytes.size() / 8);
  std::memcpy(values.data(), stored.bytes.data(), stored.bytes.size());
  return values;
}

}  // namespace

std::vector<std::string> fixture_names(const std::string& layout) {
  std::vector<std::string> names;
  for (const std::string& name : list_directory(std::string(ZAYA_TEST_DATA) + "/" + layout)) {
    if (is_directory(fixture_path(layout, name))) names.push_back(name);
  }
  return names;
}

std::string fixture_path(const std::string& layout, const std::string& name) {
  return std::string(ZAYA_TEST_DATA) + "/" + layout + "/" + name;
}

FixtureModel::FixtureModel(const std::string& path, bool uses_reference, int threads)
    : folder(path),
      pool(threads),
      backend(uses_reference ? make_ref_backend(Numerics::f32)
                             : make_cpu_backend(Numerics::f32, pool,
                                                parse_instruction_set(test_instruction_set()))) {
  OpenOptions options;
  options.is_for_training = true;
  options.max_positions = 128;
  open = open_model(folder, backend, options);
  gradient_arena = std::make_unique<Arena>("gradients", open.params->flat_count() * 4 + 64);
  gradients = Gradients(*gradient_arena, *open.params, backend.stream());
}

ScoreInput FixtureModel::inputs() const {
  const SafetensorsFile file(folder + "/inputs.safetensors");
  ScoreInput input;
  const StoredTensor ids = file.tensor("input_ids");
  input.rows = static_cast<Index>(ids.spec.shape[0]);
  input.length = static_cast<Index>(ids.spec.shape[1]);
  for (const std::int64_t id : integers(file, "input_ids")) {
    input.ids.push_back(static_cast<std::int32_t>(id));
  }
  for (const std::int64_t m : integers(file, "attention_mask")) input.mask.push_back(m != 0);
  input.labels = integers(file, "labels");
  return input;
}

Json FixtureModel::json(const std::string& name) const {
  return Json::parse(read_file(folder + "/" + name), name);
}

std::vector<double> stored_values(const StoredTensor& tensor) {
  std::vector<double> values;
  const std::uint64_t count = element_count(tensor.spec);
  for (std::uint64_t i = 0; i < count; ++i) {
    values.push_back(value_at(tensor.spec.type, tensor.bytes.data(), i));
  }
  return values;
}

double relative_error(const std::vector<double>& a, const std::vector<double>& b,
                      const std::vector<std::uint8_t>& keep) {
  if (a.size() != b.size()) return INFINITY;
  const std::size_t width = keep.empty() ? 1 : b.size() / keep.size();
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (!keep.empty() && keep[i / width] == 0) continue;
    if (std::isnan(a[i])) return INFINITY;
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  if (norm == 0) return difference == 0 ? 0 : INFINITY;
  return std::sqrt(difference / norm);
}

}  // namespace zaya
