// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <complex>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "model/forecast.h"
#include "model/token_rows.h"

namespace zaya {

namespace {

using Complex = std::complex<double>;

// A model with its memory, parameters moved off their special start values.
struct Bench {
  Bench(const ModelConfig& config, Numerics numerics)
      : backend(make_ref_backend(numerics)),
        arena("test", Index{256} << 20),
        saved("saved", Index{256} << 20),
        scratch("scratch", Index{256} << 20),
        model(config, params) {
    params.bind_for_training(arena, backend);
    model.bind(arena, backend, 64);
    params.initialize(5);
    model.reset_balancing();
    for (Param& param : params.all()) {
      const Rng rng(9, param.name);
      for (Index i = 0; i < param.count(); ++i) add(param, i, 0.3 * rng.normal(i));
    }
    params.refresh_copies(backend);
    gradients = Gradients(arena, params, backend.stream());
    loads = arena.take(DType::i64, {config.num_hidden_layers, config.num_experts + 1});
  }

  void add(const Param& param, Index i, Complex delta) {
    if (backend.stream() == DType::c128) {
      param.master.as<Complex, 1>()[i] += delta;
    } else if (backend.stream() == DType::f64) {
      param.master.as<double, 1>()[i] += delta.real();
    } else {
      param.master.as<float, 1>()[i] += static_cast<float>(delta.real());
    }
  }

  // Runs one pass; the sum of the log-probabilities' imaginary parts is the derivative in the
  // direction of an imaginary perturbation.
  double run(const TokenBatch& batch, bool has_gradients, bool recomputes = false,
             Complex* logprob_sum = nullptr) {
    Pass pass{backend, saved, scratch, batch, loads};
    if (has_gradients) pass.gradients = &gradients;
    pass.recomputes = recomputes;
    pass.skip_is_identity = model.config().skip_output == "identity";
    const Rewind rewind(saved);
    const Tensor logprobs = saved.take(backend.stream(), {batch.num_tokens()});
    const double loss = model.run(pass, 1, logprobs);
    if (logprob_sum != nullptr) {
      *logprob_sum = 0;
      for (const Complex& x : logprobs.as<Complex, 1>()) *logprob_sum += x;
    }
    return loss;
  }

  Backend backend;
  Arena arena, saved, scratch;
  ParamSet params;
  Model model;
  Gradients gradients;
  Tensor loads;
};

ModelConfig tiny() {
  ModelConfig c = model_preset("tiny");
  c.vocab_size = 23;
  c.hidden_size = 12;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 6;
  c.partial_rotary_factor = 0.7;  // 4 of 6 channels
  c.num_experts = 3;
  c.moe_intermediate_size = 7;
  c.router_hidden_size = 5;
  return c;
}

struct Variant {
  std::string name;
  ModelConfig config;
};

std::vector<Variant> variants() {
  std::vector<Variant> list;
  list.push_back({"plain", tiny()});
  ModelConfig c = tiny();
  c.attention_bias = c.lm_head_bias = true;
  c.tie_word_embeddings = false;
  c.cca_time0 = 3;
  c.cca_time1 = 4;
  c.num_key_value_heads = 1;
  c.pad_token_id = 3;
  list.push_back({"biases, untied, long kernels", c});
  c = tiny();
  c.layer_types = {"hybrid_sliding", "hybrid", "hybrid_sliding"};
  c.sliding_window = 3;
  c.partial_rotary_factor_sliding = 1;
  c.skip_output = "identity";
  c.cca_time0 = c.cca_time1 = 1;
  list.push_back({"sliding, identity skip, kernels of one tap", c});
  c = tiny();
  c.router_kind = "linear";
  list.push_back({"linear router", c});
  return list;
}

// Two rows of 9 tokens; the first row holds two documents.
struct Packed {
  Packed() : rows(ids(), 9) {
    std::vector<std::int32_t> targets(18);
    for (int i = 0; i < 18; ++i) targets[i] = (7 * i + 3) % 23;
    targets[4] = targets[17] = -1;
    rows.set_targets(targets);
    batch = rows.batch();
    batch.segments = segments;
    batch.spans = spans;
  }
  static std::vector<std::int32_t> ids() {
    std::vector<std::int32_t> out(18);
    for (int i = 0; i < 18; ++i) out[i] = (5 * i + 2) % 23;
    return out;
  }
  TokenRows rows;
  std::vector<Segment> segments{{0, 5, -1}, {5, 9, -1}, {9, 18, -1}};
  std::vector<AttentionSpan> spans{{0, 5, 0, 5}, {5, 9, 5, 9}, {9, 18, 9, 18}};
  TokenBatch batch;
};

double norm_of(Tensor x) {
  double sum = 0;
  for (const double v : x.as<double, 1>()) sum += v * v;
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("every parameter's gradient agrees with the complex step of the whole model") {
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    const Packed packed;
    Bench exact(variant.config, Numerics::f64), shifted(variant.config, Numerics::c128);
    exact.run(packed.batch, true);
    for (const Param& param : exact.params.all()) {
      if (param.rule.role == OptimizerRole::none) continue;
      CAPTURE(param.name);
      const Param& twin = *shifted.params.find(param.name);
      const auto gradient = exact.gradients.of(param).as<double, 1>();
      const double scale = norm_of(exact.gradients.of(param)) + 1e-3;
      const Rng rng(1, param.name);
      for (int draw = 0; draw < 4; ++draw) {
        const Index i = static_cast<Index>(rng.below(param.count(), draw));
        constexpr double kStep = 1e-30;
        shifted.add(twin, i, Complex(0, kStep));
        Complex sum;
        shifted.run(packed.batch, false, false, &sum);
        shifted.add(twin, i, Complex(0, -kStep));
        double derivative = -sum.imag() / kStep;
        // Lookups of the padding row have no gradient by definition.
        const bool is_pad_row = param.name == "model.embed_tokens.weight" &&
                                i / variant.config.hidden_size == variant.config.pad_token_id;
        if (is_pad_row && !variant.config.tie_word_embeddings) derivative = 0;
        CHECK(std::abs(gradient[i] - derivative) <= 1e-9 * scale);
      }
    }
  }
}

TEST_CASE("recomputed blocks give equal bits") {
  for (const Variant& variant : variants()) {
    const Packed packed;
    Bench kept(variant.config, Numerics::f32), recomputed(variant.config, Numerics::f32);
    CHECK(kept.run(packed.batch, true) == recomputed.run(packed.batch, true, true));
    const auto a = kept.gradients.flat().as<float, 1>(),
               b = recomputed.gradients.flat().as<float, 1>();
    for (Index i = 0; i < a.dim(0); ++i) REQUIRE(a[i] == b[i]);
  }
}

TEST_CASE("running twice doubles parameter gradients") {
  const Packed packed;
  Bench once(tiny(), Numerics::f64), twice(tiny(), Numerics::f64);
  once.run(packed.batch, true);
  twice.run(packed.batch, true);
  twice.run(packed.batch, true);
  const auto a = once.gradients.flat().as<double, 1>(), b = twice.gradients.flat().as<double, 1>();
  for (Index i = 0; i < a.dim(0); ++i) REQUIRE(b[i] == doctest::Approx(2 * a[i]).epsilon(1e-12));
}

TEST_CASE("a document does not see the other documents of its row") {
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    const Packed packed;
    Bench bench(variant.config, Numerics::f32);
    const auto logprobs = [&](std::vector<std::int32_t> ids) {
      TokenBatch batch = packed.batch;
      batch.ids = {reinterpret_cast<const std::byte*>(ids.data()), DType::i32, Shape{18}};
      Pass pass{bench.backend, bench.saved, bench.scratch, batch, bench.loads};
      const Rewind rewind(bench.saved);
      const Tensor out = bench.saved.take(DType::f32, {18});
      bench.model.run(pass, 1, out);
      const auto values = out.as<float, 1>();
      return std::vector<float>(values.begin(), values.end());
    };
    std::vector<std::int32_t> changed = Packed::ids();
    for (int i = 0; i < 5; ++i) changed[i] = (changed[i] + 1 + i) % 23;
    const std::vector<float> before = logprobs(Packed::ids()), after = logprobs(changed);
    for (int i = 5; i < 18; ++i) CHECK(before[i] == after[i]);
    CHECK(before[3] != after[3]);
  }
}

TEST_CASE("planned bytes are taken bytes") {
  for (const bool recomputes : {false, true}) {
    const Packed packed;
    Bench bench(tiny(), Numerics::f32);
    const PassShape shape{2, 9, true, recomputes, false, 0, 0};
    const PassForecast forecast = forecast_pass(tiny(), Numerics::f32, shape);
    bench.run(packed.batch, true, recomputes);
    // The forecast also takes the table of loads.
    const Index loads = (bench.loads.num_bytes() + 63) / 64 * 64;
    CHECK(bench.saved.peak() + loads == forecast.saved_bytes);
    CHECK(bench.scratch.peak() == forecast.scratch_bytes);
    CHECK(forecast.work.product_flops > 0);
  }
}

TEST_CASE("incremental passes agree with one full pass") {
  for (const Variant& variant : variants()) {
    CAPTURE(variant.name);
    Bench bench(variant.config, Numerics::f64);
    const std::vector<std::int32_t> ids{4, 17, 9, 3, 11, 2, 8};
    const Index count = static_cast<Index>(ids.size()), width = variant.config.hidden_size;
    const TokenRows full(ids, count);
    Pass whole{bench.backend, bench.saved, bench.scratch, full.batch(), bench.loads};
    const Tensor expected = bench.model.encode(whole);
    DecodeState state(bench.arena, variant.config, DType::f64, 2, 16);
    Index done = 0;
    for (const Index piece : {1, 3, 1, 2}) {
      const std::vector<Index> rows{1};
      const std::vector<std::vector<std::int32_t>> tokens{
          {ids.begin() + done, ids.begin() + done + piece}};
      const TokenRows next(state, rows, tokens);
      Pass pass{bench.backend, bench.saved, bench.scratch, next.batch(), bench.loads};
      pass.decode = &state;
      pass.decode_rows = rows;
      const auto got = bench.model.encode(pass).as<double, 2>();
      const auto want = expected.as<double, 2>();
      for (Index t = 0; t < piece; ++t) {
        for (Index d = 0; d < width; ++d) {
          CHECK(got[t][d] == doctest::Approx(want[done + t][d]).epsilon(1e-10));
        }
      }
      done += piece;
    }
  }
}

}  // namespace zaya
