// SPDX-License-Identifier: Apache-2.0
#include "eval/sampler.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

namespace zaya {

namespace {

std::vector<float> scratch;

std::int32_t draw(const std::vector<float>& logits, const SamplerOptions& options, Index position,
                  const std::vector<std::int32_t>& seen = {}) {
  return sample_token(logits, seen, options, 0, position, scratch);
}

// Ids that 400 draws give.
std::set<std::int32_t> support(const std::vector<float>& logits, const SamplerOptions& options) {
  std::set<std::int32_t> ids;
  for (Index i = 0; i < 400; ++i) ids.insert(draw(logits, options, i));
  return ids;
}

}  // namespace

TEST_CASE("temperature zero takes the largest logit and the lowest id on a tie") {
  SamplerOptions options;
  options.temperature = 0;
  CHECK(draw({1, 3, 2, 3}, options, 0) == 1);
  CHECK(draw({NAN, -2, -1}, options, 0) == 2);
}

TEST_CASE("draws follow the probabilities") {
  const std::vector<float> logits{std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  int counts[3] = {};
  constexpr int kDraws = 20000;
  for (Index i = 0; i < kDraws; ++i) ++counts[draw(logits, {}, i)];
  // Five standard errors of a share: 5 sqrt(p (1 - p) / n) < 0.018.
  CHECK(std::abs(counts[0] / double{kDraws} - 0.5) < 0.018);
  CHECK(std::abs(counts[1] / double{kDraws} - 0.3) < 0.018);
  CHECK(std::abs(counts[2] / double{kDraws} - 0.2) < 0.018);
}

TEST_CASE("filters keep what they say") {
  const std::vector<float> logits{std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  SamplerOptions options;
  options.top_k = 2;
  CHECK(support(logits, options) == std::set<std::int32_t>{0, 1});
  options = {};
  options.top_p = 0.75;
  CHECK(support(logits, options) == std::set<std::int32_t>{0, 1});
  options = {};
  options.min_p = 0.25;
  CHECK(support(logits, options) == std::set<std::int32_t>{0, 1, 2});
  options.min_p = 1;
  CHECK(support(logits, options) == std::set<std::int32_t>{0});
}

TEST_CASE("the repetition penalty lowers seen tokens, whatever their sign") {
  SamplerOptions options;
  options.temperature = 0;
  options.repetition_penalty = 2;
  CHECK(draw({3, 2, -1}, options, 0, {0}) == 1);
  CHECK(draw({-1, -1.5, -5}, options, 0, {0, 0}) == 1);
}

TEST_CASE("a draw depends on seed, sequence and position only") {
  const std::vector<float> logits(50, 0.0f);
  SamplerOptions a, b;
  b.seed = 2;
  int equal_seed = 0, equal_sequence = 0;
  for (Index i = 0; i < 200; ++i) {
    CHECK(draw(logits, a, i) == draw(logits, a, i));
    equal_seed += draw(logits, a, i) == draw(logits, b, i);
    equal_sequence += draw(logits, a, i) == sample_token(logits, {}, a, 1, i, scratch);
  }
  CHECK(equal_seed < 20);
  CHECK(equal_sequence < 20);
}

}  // namespace zaya
