// SPDX-License-Identifier: Apache-2.0
#include "model/forecast.h"

#include <memory>
#include <numeric>
#include <vector>

#include "model/token_rows.h"

namespace zaya {

PassForecast forecast_pass(const ModelConfig& config, Numerics numerics, const PassShape& shape) {
  PassForecast forecast;
  const Backend backend = make_count_backend(numerics, forecast.work);
  Arena run = Arena::dry("run"), saved = Arena::dry("saved"), scratch = Arena::dry("scratch");
  ParamSet params;
  Model model(config, params);
  params.bind_for_training(run, backend);
  model.bind(run, backend, 1);
  const Gradients gradients(run, params, backend.stream());

  std::unique_ptr<DecodeState> state;
  std::unique_ptr<TokenRows> rows;
  std::vector<Index> decode_rows(shape.rows);
  std::iota(decode_rows.begin(), decode_rows.end(), 0);
  if (shape.capacity > 0) {
    state =
        std::make_unique<DecodeState>(run, config, backend.compute(), shape.rows, shape.capacity);
    const std::vector<std::vector<std::int32_t>> tokens(shape.rows,
                                                        std::vector<std::int32_t>(shape.length, 0));
    rows = std::make_unique<TokenRows>(*state, decode_rows, tokens);
  } else {
    const std::vector<std::int32_t> ids(shape.rows * shape.length, 0);
    rows = std::make_unique<TokenRows>(ids, shape.length);
    rows->set_targets(ids);
  }
  Trace trace;
  Pass pass{backend, saved, scratch, rows->batch(),
            saved.take(DType::i64, {config.num_hidden_layers, config.num_experts + 1})};
  if (shape.has_gradients) pass.gradients = &gradients;
  pass.recomputes = shape.recomputes;
  if (shape.has_trace) pass.trace = &trace;
  if (state) {
    pass.decode = state.get();
    pass.decode_rows = decode_rows;
  }
  if (shape.logit_rows > 0 || state) {
    static_cast<void>(model.encode(pass));
    static_cast<void>(saved.take(backend.compute(), {shape.logit_rows, config.hidden_size}));
    const Tensor x = scratch.take(backend.compute(), {shape.logit_rows, config.hidden_size});
    model.logits(pass, x, scratch.take(backend.stream(), {shape.logit_rows, config.vocab_size}));
  } else {
    const Index tokens = shape.rows * shape.length;
    static_cast<void>(model.run(pass, 1, saved.take(backend.stream(), {tokens})));
  }
  forecast.saved_bytes = saved.peak();
  forecast.scratch_bytes = scratch.peak();
  return forecast;
}

}  // namespace zaya
