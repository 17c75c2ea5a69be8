// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"

namespace zaya {

namespace {

// Natural logarithm of a positive normal double by exact scaling and a series in
// s = (m - 1) / (m + 1), |s| <= 0.1716: error below 2e-16 relative, no library call.
double portable_log(double x) {
  std::uint64_t u;
  std::memcpy(&u, &x, 8);
  int exponent = static_cast<int>(u >> 52) - 1023;
  u = (u & 0x000fffffffffffffull) | 0x3ff0000000000000ull;
  double m;
  std::memcpy(&m, &u, 8);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return exponent * 0.6931471805599453 + 2 * s * sum;
}

double polynomial(double x, const double* coefficients, int count) {
  double sum = 0;
  for (int i = count - 1; i >= 0; --i) sum = sum * x + coefficients[i];
  return sum;
}

}  // namespace

Rng::Rng(std::uint64_t seed, std::string_view name) {
  const std::uint64_t key = hash64(name, seed);
  key_ = {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
  stream_ = hash64(name, ~seed);
}

std::uint64_t Rng::bits(std::uint64_t counter) const {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter);
  std::uint32_t c1 = static_cast<std::uint32_t>(counter >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(stream_);
  std::uint32_t c3 = static_cast<std::uint32_t>(stream_ >> 32);
  std::uint32_t k0 = key_[0], k1 = key_[1];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return (std::uint64_t{c1} << 32) | c0;
}

double Rng::uniform(std::uint64_t counter) const {
  return static_cast<double>(bits(counter) >> 11) * 0x1p-53;
}

std::uint64_t Rng::below(std::uint64_t bound, std::uint64_t counter) const {
  ZAYA_CHECK(bound >= 1);
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits(counter)) * bound) >> 64);
}

double Rng::normal(std::uint64_t counter) const {
  // Centre of one of 2^53 equal cells, so that 0 and 1 never occur.
  const double p = (static_cast<double>(bits(counter) >> 11) + 0.5) * 0x1p-53;
  static constexpr double kA[] = {3.3871328727963666080e0, 1.3314166789178437745e2,
                                  1.9715909503065514427e3, 1.3731693765509461125e4,
                                  4.5921953931549871457e4, 6.7265770927008700853e4,
                                  3.3430575583588128105e4, 2.5090809287301226727e3};
  static constexpr double kB[] = {1.0,
                                  4.2313330701600911252e1,
                                  6.8718700749205790830e2,
                                  5.3941960214247511077e3,
                                  2.1213794301586595867e4,
                                  3.9307895800092710610e4,
                                  2.8729085735721942674e4,
                                  5.2264952788528545610e3};
  static constexpr double kC[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                  5.76949722146069140550e0,  3.64784832476320460504e0,
                                  1.27045825245236838258e0,  2.41780725177450611770e-1,
                                  2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double kD[] = {1.0,
                                  2.05319162663775882187e0,
                                  1.67638483018380384940e0,
                                  6.89767334985100004550e-1,
                                  1.48103976427480074590e-1,
                                  1.51986665636164571966e-2,
                                  5.47593808499534494600e-4,
                                  1.05075007164441684324e-9};
  static constexpr double kE[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                  1.78482653991729133580e0,  2.96560571828504891230e-1,
                                  2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                  2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double kF[] = {1.0,
                                  5.99832206555887937690e-1,
                                  1.36929880922735805310e-1,
                                  1.48753612908506148525e-2,
                                  7.86869131145613259100e-4,
                                  1.84631831751005468180e-5,
                                  1.42151175831644588870e-7,
                                  2.04426310338993978564e-15};
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(r, kA, 8) / polynomial(r, kB, 8);
  }
  double r = std::sqrt(-portable_log(q < 0 ? p : 1 - p));
  double x;
  if (r <= 5) {
    r -= 1.6;
    x = polynomial(r, kC, 8) / polynomial(r, kD, 8);
  } else {
    r -= 5;
    x = polynomial(r, kE, 8) / polynomial(r, kF, 8);
  }
  return q < 0 ? -x : x;
}

Permutation::Permutation(std::uint64_t seed, std::string_view name, Index size) : size_(size) {
  ZAYA_CHECK(size >= 1);
  half_bits_ = 1;
  while ((Index{1} << (2 * half_bits_)) < size) ++half_bits_;
  const Rng rng(seed, name);
  for (std::size_t i = 0; i < round_keys_.size(); ++i) round_keys_[i] = rng.bits(i);
}

Index Permutation::operator()(Index i) const {
  ZAYA_DCHECK(i >= 0 && i < size_);
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t x = static_cast<std::uint64_t>(i);
  do {
    std::uint64_t left = x >> half_bits_, right = x & mask;
    for (const std::uint64_t key : round_keys_) {
      // A multiply-xor mix of the half word and the round key (splitmix64's finaliser).
      std::uint64_t z = right + key;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
      z ^= z >> 31;
      const std::uint64_t next = left ^ (z & mask);
      left = right;
      right = next;
    }
    x = (left << half_bits_) | right;
  } while (x >= static_cast<std::uint64_t>(size_));
  return static_cast<Index>(x);
}

}  // namespace zaya
