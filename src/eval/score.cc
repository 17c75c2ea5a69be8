// SPDX-License-Identifier: Apache-2.0
#include "eval/score.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "model/forecast.h"
#include "model/token_rows.h"

namespace zaya {

namespace {

constexpr std::int64_t kIgnored = -100;

// The values of a float tensor of any dtype.
std::vector<float> to_floats(ConstTensor x) {
  std::vector<float> out(x.count());
  if (x.dtype() == DType::bf16) {
    const auto in = x.as<bf16, 1>();
    for (Index i = 0; i < x.count(); ++i) out[i] = static_cast<float>(in[i]);
  } else if (x.dtype() == DType::f64) {
    const auto in = x.as<double, 1>();
    for (Index i = 0; i < x.count(); ++i) out[i] = static_cast<float>(in[i]);
  } else {
    const auto in = x.as<float, 1>();
    std::copy(in.begin(), in.end(), out.begin());
  }
  return out;
}

// Target of position t is the label of t + 1 in the same row.
std::vector<std::int32_t> targets_of(const ScoreInput& input) {
  const std::vector<std::int64_t> labels =
      input.labels.empty() ? default_labels(input) : input.labels;
  std::vector<std::int32_t> targets(input.ids.size(), -1);
  for (Index row = 0; row < input.rows; ++row) {
    for (Index t = 0; t + 1 < input.length; ++t) {
      const std::int64_t label = labels[row * input.length + t + 1];
      if (label != kIgnored) {
        targets[row * input.length + t] = static_cast<std::int32_t>(label);
      }
    }
  }
  return targets;
}

void add_dump(const Model& model, Pass& pass, const Trace& trace, const ScoreInput& input,
              ScoreResult& result) {
  const Index rows = input.rows, length = input.length;
  const auto add = [&](std::string name, ConstTensor x, Index width) {
    std::vector<Index> shape{rows, length};
    if (width > 0) shape.push_back(width);
    result.dump.push_back({std::move(name), shape, to_floats(x), {}});
  };
  const ModelConfig& c = model.config();
  const Rewind rewind(pass.scratch);
  const Tensor logits = pass.scratch.take(pass.backend.stream(), {rows * length, c.vocab_size});
  model.logits(pass, trace.final, logits);
  add("logits", logits, c.vocab_size);
  for (std::size_t i = 0; i < trace.hidden.size(); ++i) {
    add(fmt::format("hidden.{}", i), trace.hidden[i], c.hidden_size);
  }
  add("hidden.final", trace.final, c.hidden_size);
  for (std::size_t i = 0; i < trace.router_choice.size(); ++i) {
    const auto choice = trace.router_choice[i].as<std::int32_t, 1>();
    result.dump.push_back({fmt::format("router.{}.choice", i),
                           {rows, length},
                           {},
                           std::vector<std::int64_t>(choice.begin(), choice.end())});
    add(fmt::format("router.{}.probs", i), trace.router_probs[i], c.num_experts + 1);
    std::vector<float> weights = to_floats(trace.router_weight[i]);
    for (std::size_t t = 0; t < weights.size(); ++t) {
      if (choice[static_cast<Index>(t)] == c.num_experts && !pass.skip_is_identity) weights[t] = 0;
    }
    result.dump.push_back(
        {fmt::format("router.{}.weight", i), {rows, length}, std::move(weights), {}});
  }
}

}  // namespace

std::vector<std::int64_t> default_labels(const ScoreInput& input) {
  std::vector<std::int64_t> labels(input.ids.begin(), input.ids.end());
  if (input.mask.empty()) return labels;
  for (Index row = 0; row < input.rows; ++row) {
    for (Index t = 0; t < input.length; ++t) {
      const Index i = row * input.length + t;
      const bool follows_padding = t > 0 && input.mask[i - 1] == 0;
      if (input.mask[i] == 0 || follows_padding) labels[i] = kIgnored;
    }
  }
  return labels;
}

void check_score_input(const ScoreInput& input, Index vocab_size) {
  for (Index i = 0; i < static_cast<Index>(input.ids.size()); ++i) {
    const auto check = [&](std::int64_t id, const char* what) {
      if (id < 0 || id >= vocab_size) {
        throw Error{ErrorKind::usage,
                    fmt::format("{} {} in row {}, position {} lies outside the vocabulary of {}",
                                what, id, i / input.length, i % input.length, vocab_size)};
      }
    };
    check(input.ids[i], "token id");
    if (!input.labels.empty() && input.labels[i] != kIgnored) check(input.labels[i], "label");
  }
}

ScoreResult score(const Model& model, const Backend& backend, const ScoreInput& input,
                  const ScoreOptions& options, const Gradients* gradients) {
  const ModelConfig& c = model.config();
  check_score_input(input, c.vocab_size);
  PassShape shape{input.rows, input.length, gradients != nullptr, false, options.wants_dump, 0, 0};
  const PassForecast forecast = forecast_pass(c, backend.numerics, shape);
  const Index logits_bytes =
      options.wants_dump ? (input.rows * input.length * c.vocab_size + 16) * 8 : 0;
  Arena saved("activations", forecast.saved_bytes);
  Arena scratch("scratch", forecast.scratch_bytes + logits_bytes);

  TokenRows rows(input.ids, input.length, input.mask);
  const std::vector<std::int32_t> targets = targets_of(input);
  rows.set_targets(targets);
  Trace trace;
  Pass pass{backend, saved, scratch, rows.batch(),
            saved.take(DType::i64, {c.num_hidden_layers, c.num_experts + 1})};
  pass.gradients = gradients;
  pass.skip_is_identity = options.skip_is_identity;
  if (options.wants_dump) pass.trace = &trace;

  ScoreResult result;
  for (const std::int32_t target : targets) result.num_tokens += target >= 0;
  const double divisor = static_cast<double>(std::max<Index>(result.num_tokens, 1));
  const Tensor logprobs = saved.take(backend.stream(), {input.rows * input.length});
  result.loss = model.run(pass, 1 / divisor, logprobs) / divisor;
  const std::vector<float> values = to_floats(logprobs);
  for (Index row = 0; row < input.rows; ++row) {
    std::vector<double>& out = result.token_logprobs.emplace_back();
    for (Index t = 0; t + 1 < input.length; ++t) {
      const Index i = row * input.length + t;
      out.push_back(targets[i] >= 0 ? values[i] : std::numeric_limits<double>::quiet_NaN());
    }
  }
  if (options.wants_dump) add_dump(model, pass, trace, input, result);
  return result;
}

}  // namespace zaya
