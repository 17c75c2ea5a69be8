// SPDX-License-Identifier: Apache-2.0
//
// Random numbers as pure functions of (seed, name, counter): Philox4x32 with 10 rounds (Salmon et
// al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). There is no state to save and no
// order of use that matters. All results use only exact integer steps and IEEE operations written
// out here, so they do not depend on the math library or the instruction set.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/types.h"

namespace zaya {

class Rng {
 public:
  // A stream named `name` under `seed`; different names give unrelated streams.
  Rng(std::uint64_t seed, std::string_view name);

  // Word number `counter` of the stream.
  std::uint64_t bits(std::uint64_t counter) const;
  // Uniform in [0, 1), 53 bits.
  double uniform(std::uint64_t counter) const;
  // Uniform integer in [0, bound), bound >= 1; unbiased to 2^-64 * bound.
  std::uint64_t below(std::uint64_t bound, std::uint64_t counter) const;
  // Standard normal (inverse of the distribution function, Wichura's AS 241, to 1e-15).
  double normal(std::uint64_t counter) const;

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint64_t stream_;
};

// A pseudo-random permutation of [0, size) evaluated at one place, without a table: a Feistel
// network over the next power of four with cycle walking. Equal (seed, name, size) give the same
// permutation.
class Permutation {
 public:
  Permutation(std::uint64_t seed, std::string_view name, Index size);
  Index operator()(Index i) const;

 private:
  Index size_;
  int half_bits_;
  std::array<std::uint64_t, 8> round_keys_;
};

}  // namespace zaya
