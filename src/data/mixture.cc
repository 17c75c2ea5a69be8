// SPDX-License-Identifier: Apache-2.0
#include "data/mixture.h"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "base/check.h"

namespace zaya {

namespace {

__extension__ using Wide = __int128;

constexpr Index kWhole = Index{1} << 40;  // the sum of all shares
constexpr Index kRememberEvery = 1 << 16;

// Shares that add up to kWhole: rounded down, the rest to the largest remainders.
std::vector<Index> shares_of(const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  ZAYA_CHECK(sum > 0, "no source has a weight");
  std::vector<Index> shares(weights.size());
  std::vector<std::pair<double, std::size_t>> remainders;
  Index rest = kWhole;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / sum * static_cast<double>(kWhole);
    shares[i] = static_cast<Index>(exact);
    rest -= shares[i];
    if (weights[i] > 0) remainders.emplace_back(static_cast<double>(shares[i]) - exact, i);
  }
  std::sort(remainders.begin(), remainders.end());
  for (std::size_t i = 0; rest != 0; i = (i + 1) % remainders.size()) {
    const Index step = rest > 0 ? 1 : -1;
    shares[remainders[i].second] += step;
    rest -= step;
  }
  return shares;
}

// After `k` samples: lag = k * share - kWhole * taken, for each source.
struct Walk {
  Index k = 0;
  std::vector<Index> lag, taken;
};

}  // namespace

struct Mixture::State {
  std::vector<Index> shares;
  Index num_drawn = 0;  // sources with a share
  std::mutex mutex;     // guards current and remembered
  Walk current;
  std::vector<Walk> remembered;  // at multiples of kRememberEvery

  int next_source(const Walk& walk) const;
  int step(Walk& walk) const;
};

// The due source with the nearest deadline; `walk.lag` is already that of the next moment.
int Mixture::State::next_source(const Walk& walk) const {
  // Due: lag >= 1 / (2n - 2). Deadline: (1 - 1 / (2n - 2) - lag) / share, compared crosswise.
  const Index width = std::max<Index>(2 * num_drawn - 2, 1);
  int best = -1;
  Index best_slack = 0;
  for (int i = 0; i < static_cast<int>(shares.size()); ++i) {
    if (shares[i] == 0 || (num_drawn > 1 && width * walk.lag[i] < kWhole)) continue;
    const Index slack = (width - 1) * kWhole - width * walk.lag[i];
    if (best < 0 || Wide{slack} * shares[best] < Wide{best_slack} * shares[i]) {
      best = i;
      best_slack = slack;
    }
  }
  ZAYA_CHECK(best >= 0, "no source is due");
  return best;
}

int Mixture::State::step(Walk& walk) const {
  for (std::size_t i = 0; i < shares.size(); ++i) walk.lag[i] += shares[i];
  const int source = next_source(walk);
  walk.lag[source] -= kWhole;
  ++walk.taken[source];
  ++walk.k;
  return source;
}

Mixture::Mixture(const std::vector<double>& weights) : state_(std::make_unique<State>()) {
  ZAYA_CHECK(weights.size() < (std::size_t{1} << 20), "too many sources");
  State& s = *state_;
  s.shares = shares_of(weights);
  s.num_drawn = std::count_if(s.shares.begin(), s.shares.end(), [](Index x) { return x > 0; });
  s.current.lag.assign(weights.size(), 0);
  s.current.taken.assign(weights.size(), 0);
  s.remembered.push_back(s.current);
}

Mixture::~Mixture() = default;

Mixture::Pick Mixture::at(Index k) const {
  ZAYA_CHECK(k >= 0);
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  const Index place = std::min(k / kRememberEvery, static_cast<Index>(s.remembered.size()) - 1);
  if (s.current.k > k || s.current.k < s.remembered[place].k) s.current = s.remembered[place];
  while (true) {
    const bool is_new = s.current.k == static_cast<Index>(s.remembered.size()) * kRememberEvery;
    if (is_new) s.remembered.push_back(s.current);
    const bool is_last = s.current.k == k;
    const int source = s.step(s.current);
    if (is_last) return {source, s.current.taken[source] - 1};
  }
}

}  // namespace zaya
