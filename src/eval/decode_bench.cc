// SPDX-License-Identifier: Apache-2.0
#include "eval/decode_bench.h"

#include <fmt/core.h>

#include <string>

#include "backend/bench/yardsticks.h"
#include "eval/generate.h"
#include "model/token_rows.h"

namespace zaya {

namespace {

constexpr Index kBatch = 16, kPromptTokens = 128, kPrefillTokens = 4096, kRowTokens = 1024;

// A model with made-up weights, bound for inference.
struct InferenceModel {
  InferenceModel(const ModelConfig& config, const Backend& backend, BenchMemory& memory)
      : model(config, params) {
    params.bind_for_inference(memory.arena(), backend);
    for (Param& param : params.all()) {
      const Rewind rewind(memory.arena());
      const bool is_constant = param.init.kind == Init::Kind::constant;
      const Tensor from = is_constant ? memory.zeros(backend.stream(), param.shape)
                                      : memory.values(backend.stream(), param.shape, 0.03);
      if (is_constant && param.init.value != 0) backend.move->copy(ones(memory, param), from);
      backend.move->copy(from, param.weight);
    }
    model.reset_balancing();
    model.bind(memory.arena(), backend, kPrefillTokens);
  }

  static Tensor ones(BenchMemory& memory, const Param& param) {
    const Tensor tensor = memory.zeros(DType::f32, param.shape);
    float* values = tensor.as<float, 1>().data();
    for (Index i = 0; i < tensor.count(); ++i) values[i] = 1;
    return tensor;
  }

  ParamSet params;
  Model model;
};

// Bytes of the weights that the last pass read, each once: all but the experts that no token chose,
// and of an untied input table only the rows of its tokens.
double touched_bytes(const InferenceModel& m, ConstTensor loads, Index num_tokens) {
  const ModelConfig& c = m.model.config();
  const auto counts = loads.as<std::int64_t, 2>();
  double bytes = 0;
  for (const Param& param : m.params.all()) {
    const double all = static_cast<double>(param.weight.num_bytes());
    const std::string& name = param.name;
    if (param.shape.rank() == 3 && name.find(".experts.") != std::string::npos) {
      const Index layer = std::stoll(name.substr(name.find("layers.") + 7));
      Index used = 0;
      for (Index e = 0; e < c.num_experts; ++e) used += counts[layer][e] > 0;
      bytes += all * static_cast<double>(used) / static_cast<double>(c.num_experts);
    } else if (name == "model.embed_tokens.weight" && !c.tie_word_embeddings) {
      bytes += all * static_cast<double>(num_tokens) / static_cast<double>(c.vocab_size);
    } else {
      bytes += all;
    }
  }
  return bytes;
}

std::vector<std::int32_t> made_up_ids(Index count, Index vocabulary, Index seed) {
  std::vector<std::int32_t> ids(count);
  for (Index i = 0; i < count; ++i) {
    ids[i] = static_cast<std::int32_t>((i * 7919 + seed * 104729 + 17) % vocabulary);
  }
  return ids;
}

// Time per pass of `sequences` sequences that grow together.
BenchRow decode_row(const InferenceModel& m, const Backend& backend, ThreadPool& pool,
                    Index sequences, double target, double seconds) {
  constexpr Index kSteps = 16;
  const Index vocabulary = m.model.config().vocab_size;
  Generator generator(m.model, backend, sequences, kPromptTokens + kSteps);
  std::vector<Prompt> prompts(sequences);
  for (Index i = 0; i < sequences; ++i) {
    prompts[i].ids = made_up_ids(kPromptTokens, vocabulary, i);
  }
  GenerateOptions options;
  options.sampler.temperature = 0;
  const auto ignore = [](Index, std::int32_t) { return true; };
  ReadYardstick reading(pool);
  // Prompts alone, and prompts with further tokens: the difference is decoding.
  const auto prefill = [&] {
    options.max_new_tokens = 1;
    static_cast<void>(generator.generate(prompts, options, ignore));
  };
  double bytes = 0;
  const auto decode = [&] {
    options.max_new_tokens = kSteps;
    static_cast<void>(generator.generate(prompts, options, ignore));
    bytes = touched_bytes(m, generator.loads(), sequences);
  };
  const auto read = [&] { reading.run(); };
  const FunctionRef<void()> bodies[] = {read, prefill, decode, read};
  const std::vector<Timing> t = time_alternately(bodies, seconds, 5);
  Timing one = t[2];
  one.median = (t[2].median - t[1].median) / (kSteps - 1);
  one.low = (t[2].low - t[1].median) / (kSteps - 1);
  one.high = (t[2].high - t[1].median) / (kSteps - 1);
  Timing around = t[0];
  around.median = (t[0].median + t[3].median) / 2;
  BenchRow row =
      compare({fmt::format("decode, {} sequence{}: {:.1f} tokens/s", sequences,
                           sequences == 1 ? "" : "s", static_cast<double>(sequences) / one.median),
               "GB/s", "reading", bytes, reading.bytes(), target},
              one, around);
  return row;
}

std::vector<BenchRow> prefill_rows(const InferenceModel& m, const Backend& backend,
                                   double seconds) {
  const ModelConfig& c = m.model.config();
  Generator generator(m.model, backend, 1, kPrefillTokens);
  const std::vector<std::int32_t> ids = made_up_ids(kPrefillTokens, c.vocab_size, 3);
  const GenerateOptions options;
  const auto prefill = [&] {
    generator.reset(0);
    static_cast<void>(generator.feed(0, ids, options));
  };
  // The forward part of a training step on as many tokens, loss included.
  const PassShape shape{.rows = kPrefillTokens / kRowTokens, .length = kRowTokens};
  const PassForecast plan = forecast_pass(c, backend.numerics, shape);
  Arena saved("activations", plan.saved_bytes), scratch("scratch", plan.scratch_bytes);
  TokenRows rows(ids, kRowTokens);
  rows.set_targets(ids);
  const auto forward = [&] {
    const Rewind rewind(saved);
    Pass pass{backend, saved, scratch, rows.batch(),
              saved.take(DType::i64, {c.num_hidden_layers, c.num_experts + 1})};
    static_cast<void>(m.model.run(pass, 1, Tensor{}));
  };
  const FunctionRef<void()> bodies[] = {prefill, forward};
  const std::vector<Timing> t = time_alternately(bodies, seconds);
  const PassShape prefill_shape{
      .rows = 1, .length = kPrefillTokens, .capacity = kPrefillTokens, .logit_rows = 1};
  const double prefill_flops = forecast_pass(c, backend.numerics, prefill_shape).work.product_flops;
  return {
      compare({fmt::format("prefill of 4096 tokens: {:.0f} tokens/s",
                           static_cast<double>(kPrefillTokens) / t[0].median),
               "GFLOP/s", "forward part of training", prefill_flops, plan.work.product_flops, 0.9},
              t[0], t[1])};
}

}  // namespace

std::vector<BenchRow> bench_decode(const ModelConfig& config, const Backend& backend,
                                   ThreadPool& pool, double seconds) {
  BenchMemory memory(backend);
  const InferenceModel model(config, backend, memory);
  std::vector<BenchRow> rows{decode_row(model, backend, pool, 1, 0.8, seconds),
                             decode_row(model, backend, pool, kBatch, 0.7, seconds)};
  for (BenchRow& row : prefill_rows(model, backend, seconds)) rows.push_back(std::move(row));
  return rows;
}

}  // namespace zaya
