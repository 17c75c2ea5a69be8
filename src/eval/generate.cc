// SPDX-License-Identifier: Apache-2.0
#include "eval/generate.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "model/token_rows.h"

namespace zaya {

namespace {

// Longer prompts are fed in pieces of this many tokens: activations stay bounded.
constexpr Index kPrefillTokens = 4096;

Index keep_bytes(const ModelConfig& config, Numerics numerics, Index sequences, Index capacity) {
  Arena dry = Arena::dry("decode");
  const DecodeState state(dry, config, compute_dtype(numerics), sequences, capacity);
  static_cast<void>(dry.take(stream_dtype(numerics), {sequences, config.vocab_size}));
  static_cast<void>(dry.take(DType::i64, {config.num_hidden_layers, config.num_experts + 1}));
  return dry.peak();
}

Index pass_tokens(Index sequences, Index capacity) {
  return std::max(sequences, std::min(kPrefillTokens, capacity));
}

PassForecast forecast(const ModelConfig& config, Numerics numerics, Index sequences,
                      Index capacity) {
  // Row counts do not matter for activations, only the number of tokens does.
  const Index tokens = pass_tokens(sequences, capacity);
  return forecast_pass(config, numerics,
                       PassShape{1, tokens, false, false, false, tokens, sequences});
}

}  // namespace

Generator::Generator(const Model& model, const Backend& backend, Index sequences, Index capacity)
    : Generator(model, backend, sequences, capacity,
                forecast(model.config(), backend.numerics, sequences, capacity)) {}

Generator::Generator(const Model& model, const Backend& backend, Index sequences, Index capacity,
                     const PassForecast& pass)
    : model_(model),
      backend_(backend),
      max_pass_tokens_(pass_tokens(sequences, capacity)),
      keep_("decode state", keep_bytes(model.config(), backend.numerics, sequences, capacity)),
      saved_("activations", pass.saved_bytes),
      scratch_("scratch", pass.scratch_bytes),
      state_(std::make_unique<DecodeState>(keep_, model.config(), backend.compute(), sequences,
                                           capacity)),
      logits_(keep_.take(backend.stream(), {sequences, model.config().vocab_size})),
      loads_(keep_.take(DType::i64,
                        {model.config().num_hidden_layers, model.config().num_experts + 1})) {}

Index Generator::bytes(const ModelConfig& config, Numerics numerics, Index sequences,
                       Index capacity) {
  const PassForecast f = forecast(config, numerics, sequences, capacity);
  return keep_bytes(config, numerics, sequences, capacity) + f.saved_bytes + f.scratch_bytes;
}

std::span<const float> Generator::logits_of(Index i) const {
  const auto row = logits_[i].as<float, 1>();
  return {row.data(), static_cast<std::size_t>(row.dim(0))};
}

void Generator::run_pass(std::span<const Index> rows,
                         std::span<const std::vector<std::int32_t>> tokens,
                         std::span<const Index> first_key, std::span<const std::uint8_t> padding,
                         const GenerateOptions& options) {
  const ModelConfig& c = model_.config();
  const Rewind rewind_saved(saved_), rewind_scratch(scratch_);
  TokenRows batch(*state_, rows, tokens, first_key);
  if (!padding.empty()) batch.set_padding({padding.begin(), padding.end()});
  Pass pass{backend_, saved_, scratch_, batch.batch(), loads_};
  pass.decode = state_.get();
  pass.decode_rows = rows;
  pass.skip_is_identity = options.skip_is_identity;
  const Tensor x = model_.encode(pass);
  const Index count = static_cast<Index>(rows.size());
  const Tensor last = saved_.take(backend_.compute(), {count, c.hidden_size});
  Index end = 0;
  for (Index i = 0; i < count; ++i) {
    end += static_cast<Index>(tokens[i].size());
    backend_.move->copy(x.slice(end - 1, end), last.slice(i, i + 1));
  }
  model_.logits(pass, last, logits_.slice(0, count));
}

std::vector<float> Generator::feed(Index row, std::span<const std::int32_t> tokens,
                                   const GenerateOptions& options, Index left_padding) {
  ZAYA_CHECK(!tokens.empty());
  while (!tokens.empty()) {
    const Index count = std::min(static_cast<Index>(tokens.size()), max_pass_tokens_);
    const std::vector<std::int32_t> piece(tokens.begin(), tokens.begin() + count);
    std::vector<std::uint8_t> padding;
    for (Index t = 0; t < count && left_padding > 0; ++t) {
      padding.push_back(state_->length(row) + t < left_padding);
    }
    run_pass({&row, 1}, {&piece, 1}, {&left_padding, 1}, padding, options);
    tokens = tokens.subspan(count);
  }
  const std::span<const float> logits = logits_of(0);
  return {logits.begin(), logits.end()};
}

std::vector<std::vector<std::int32_t>> Generator::generate(std::span<const Prompt> prompts,
                                                           const GenerateOptions& options,
                                                           OnToken on_token) {
  const Index vocabulary = model_.config().vocab_size;
  const Index limit =
      options.vocabulary_limit > 0 ? std::min(options.vocabulary_limit, vocabulary) : vocabulary;
  ZAYA_CHECK(static_cast<Index>(prompts.size()) <= state_->rows());
  std::vector<std::vector<std::int32_t>> results(prompts.size()), seen;
  std::vector<Index> active, first_key;
  std::vector<std::vector<std::int32_t>> next;
  std::vector<float> scratch;

  // Takes the sampled token of sequence i; false when the sequence ends with it.
  const auto take = [&](Index i, std::span<const float> logits) {
    const Index position = static_cast<Index>(results[i].size());
    const std::int32_t id =
        sample_token(logits.first(limit), seen[i], options.sampler, i, position, scratch);
    results[i].push_back(id);
    seen[i].push_back(id);
    const bool goes_on = on_token(i, id);
    const bool is_stop =
        std::find(options.stop_ids.begin(), options.stop_ids.end(), id) != options.stop_ids.end();
    return goes_on && !is_stop && position + 1 < options.max_new_tokens &&
           state_->length(i) < state_->capacity();
  };

  for (Index i = 0; i < static_cast<Index>(prompts.size()); ++i) {
    const Prompt& prompt = prompts[i];
    if (prompt.ids.empty()) {
      throw Error{ErrorKind::usage, fmt::format("prompt {} has no tokens", i)};
    }
    if (static_cast<Index>(prompt.ids.size()) > state_->capacity()) {
      throw Error{ErrorKind::usage, fmt::format("prompt {} has {} tokens, room is for {}", i,
                                                prompt.ids.size(), state_->capacity())};
    }
    state_->reset(i);
    seen.push_back(prompt.ids);
    const std::vector<float> logits = feed(i, prompt.ids, options, prompt.left_padding);
    if (options.max_new_tokens > 0 && take(i, logits)) active.push_back(i);
  }
  while (!active.empty()) {
    next.clear();
    first_key.clear();
    for (const Index i : active) {
      next.push_back({results[i].back()});
      first_key.push_back(prompts[i].left_padding);
    }
    run_pass(active, next, first_key, {}, options);
    std::vector<Index> still;
    for (std::size_t k = 0; k < active.size(); ++k) {
      if (take(active[k], logits_of(static_cast<Index>(k)))) still.push_back(active[k]);
    }
    active = std::move(still);
  }
  return results;
}

}  // namespace zaya
