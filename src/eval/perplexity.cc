// SPDX-License-Identifier: Apache-2.0
#include "eval/perplexity.h"

namespace zaya {

namespace {

PassForecast forecast(const ModelConfig& config, Numerics numerics, Index max_tokens) {
  return forecast_pass(config, numerics, PassShape{1, max_tokens, false, false, false, 0, 0});
}

}  // namespace

Evaluator::Evaluator(const Model& model, const Backend& backend, Index max_tokens,
                     bool skip_is_identity)
    : Evaluator(model, backend, skip_is_identity,
                forecast(model.config(), backend.numerics, max_tokens)) {}

Evaluator::Evaluator(const Model& model, const Backend& backend, bool skip_is_identity,
                     const PassForecast& pass)
    : model_(model),
      backend_(backend),
      skip_is_identity_(skip_is_identity),
      saved_("evaluation activations", pass.saved_bytes),
      scratch_("evaluation scratch", pass.scratch_bytes) {}

Index Evaluator::bytes(const ModelConfig& config, Numerics numerics, Index max_tokens) {
  const PassForecast f = forecast(config, numerics, max_tokens);
  return f.saved_bytes + f.scratch_bytes;
}

LossSum Evaluator::evaluate(const TokenBatch& batch) {
  const ModelConfig& c = model_.config();
  const Rewind rewind(saved_);
  Pass pass{backend_, saved_, scratch_, batch,
            saved_.take(DType::i64, {c.num_hidden_layers, c.num_experts + 1})};
  pass.skip_is_identity = skip_is_identity_;
  LossSum result;
  result.sum = model_.run(pass, 1, Tensor{});
  const auto targets = batch.targets.as<std::int32_t, 1>();
  for (const std::int32_t target : targets) result.count += target >= 0;
  return result;
}

}  // namespace zaya
