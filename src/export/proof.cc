// SPDX-License-Identifier: Apache-2.0
#include "export/proof.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/fault_point.h"
#include "base/rng.h"
#include "export/hf_names.h"
#include "model/forecast.h"
#include "model/token_rows.h"

namespace zaya {

namespace {

constexpr Index kRows = 2, kLength = 16;

Index length_of(const ModelConfig& config) {
  return std::min(kLength, config.max_position_embeddings);
}

OpenOptions options_for(const ModelConfig& config, DType dtype) {
  OpenOptions options;
  options.max_positions = length_of(config);
  options.rounds_to_bf16 = dtype == DType::bf16;
  return options;
}

// Logits [kRows * length, V] of the fixed batch.
std::vector<float> logits_of(const OpenModel& open, const Backend& backend) {
  const ModelConfig& c = open.config;
  const Index length = length_of(c), count = kRows * length;
  const Rng rng(0, "export.proof");
  std::vector<std::int32_t> ids;
  for (Index i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>(
        rng.below(static_cast<std::uint64_t>(c.vocab_size), static_cast<std::uint64_t>(i))));
  }
  const TokenRows rows(ids, length);
  PassShape shape{kRows, length, false, false, false, 0, count};
  const PassForecast forecast = forecast_pass(c, backend.numerics, shape);
  Arena saved("activations", forecast.saved_bytes), scratch("scratch", forecast.scratch_bytes);
  Pass pass{backend, saved, scratch, rows.batch(),
            saved.take(DType::i64, {c.num_hidden_layers, c.num_experts + 1})};
  pass.skip_is_identity = c.skip_output == "identity";
  const Tensor x = open.model->encode(pass);
  const Tensor logits = scratch.take(backend.stream(), {count, c.vocab_size});
  open.model->logits(pass, x, logits);
  const auto values = logits.as<float, 1>();
  return {values.begin(), values.end()};
}

double deviation(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  if (std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0) return 0;
  // Zeros of two signs differ in bits, but in no number above this one.
  double most = std::numeric_limits<double>::denorm_min();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) == 0) continue;
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    most = std::max(most, difference);
  }
  return most;
}

}  // namespace

double proof_deviation(const ModelOrigin& source, const std::string& folder, const Backend& backend,
                       DType dtype) {
  std::vector<float> expected, found;
  {
    const OpenModel open = open_model(source, backend, options_for(source.config, dtype));
    expected = logits_of(open, backend);
  }
  {
    OpenOptions options = options_for(source.config, dtype);
    options.rounds_to_bf16 = false;
    const OpenModel open = open_model(folder, backend, options);
    found = logits_of(open, backend);
  }
  return deviation(expected, found) + (fault_errno("export.proof") == 0 ? 0 : 1);
}

Index bytes_for_proof(const ModelOrigin& source, const Backend& backend, Layout layout,
                      DType dtype) {
  const OpenOptions options = options_for(source.config, dtype);
  ParamSet params;
  const Model model(source.config, params);
  // Of the exported folder: what its layout cuts apart or stores in another type is copied.
  Index folder = 0;
  for (const Param& param : params.all()) {
    const bool is_whole = stored_tensors(param, layout, source.config)[0].entry < 0;
    const bool is_compute = param.rule.weight_type == WeightType::compute;
    if (is_whole && (dtype == DType::f32 || is_compute)) continue;
    folder += param.count() * size_of(is_compute ? backend.compute() : backend.stream());
  }
  return std::max(folder, bytes_to_open(source, backend, options));
}

}  // namespace zaya
