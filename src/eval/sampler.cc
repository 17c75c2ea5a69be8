// SPDX-License-Identifier: Apache-2.0
#include "eval/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/rng.h"

namespace zaya {

namespace {

struct Candidate {
  std::int32_t id;
  double probability;
};

// More likely first; the lower id on a tie, so that the order is total.
bool is_before(const Candidate& a, const Candidate& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.id < b.id;
}

// How many of the sorted candidates the filters leave; at least one.
std::size_t kept(const std::vector<Candidate>& sorted, const SamplerOptions& options) {
  std::size_t count = sorted.size();
  if (options.top_k > 0) count = std::min(count, static_cast<std::size_t>(options.top_k));
  if (options.top_p < 1) {
    double whole = 0, sum = 0;
    for (std::size_t i = 0; i < count; ++i) whole += sorted[i].probability;
    for (std::size_t i = 0; i < count; ++i) {
      sum += sorted[i].probability;
      if (sum >= options.top_p * whole) count = i + 1;
    }
  }
  if (options.min_p > 0) {
    const double least = options.min_p * sorted[0].probability;
    while (count > 1 && sorted[count - 1].probability < least) --count;
  }
  return std::max<std::size_t>(count, 1);
}

}  // namespace

std::int32_t sample_token(std::span<const float> logits, std::span<const std::int32_t> seen,
                          const SamplerOptions& options, Index sequence, Index position,
                          std::vector<float>& scratch) {
  scratch.assign(logits.begin(), logits.end());
  for (float& x : scratch) {
    if (std::isnan(x)) x = -INFINITY;
  }
  if (options.repetition_penalty != 1) {
    std::vector<std::int32_t> distinct(seen.begin(), seen.end());
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    const float penalty = static_cast<float>(options.repetition_penalty);
    for (const std::int32_t id : distinct) {
      if (id < 0 || id >= static_cast<std::int32_t>(scratch.size())) continue;
      float& x = scratch[id];
      x = x > 0 ? x / penalty : x * penalty;
    }
  }
  const auto largest = std::max_element(scratch.begin(), scratch.end());
  if (options.temperature <= 0) return static_cast<std::int32_t>(largest - scratch.begin());

  std::vector<Candidate> candidates;
  candidates.reserve(scratch.size());
  for (std::size_t i = 0; i < scratch.size(); ++i) {
    const double p = std::exp((static_cast<double>(scratch[i]) - *largest) / options.temperature);
    if (p > 0) candidates.push_back({static_cast<std::int32_t>(i), p});
  }
  std::sort(candidates.begin(), candidates.end(), is_before);
  candidates.resize(kept(candidates, options));
  double whole = 0;
  for (const Candidate& c : candidates) whole += c.probability;
  const Rng rng(options.seed, "sample " + std::to_string(sequence));
  double rest = rng.uniform(static_cast<std::uint64_t>(position)) * whole;
  for (const Candidate& c : candidates) {
    rest -= c.probability;
    if (rest < 0) return c.id;
  }
  return candidates.back().id;
}

}  // namespace zaya
