// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace zaya {

TEST_CASE("random numbers are functions of seed, name and counter with the right moments") {
  const Rng a(7, "weights"), same(7, "weights"), other(7, "biases"), seed(8, "weights");
  CHECK(a.bits(3) == same.bits(3));
  CHECK(a.bits(3) != other.bits(3));
  CHECK(a.bits(3) != seed.bits(3));
  constexpr int kCount = 200000;
  double sum = 0, squares = 0, fourth = 0, uniform = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = a.normal(i);
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    uniform += a.uniform(i);
  }
  // Five standard errors: 5 sqrt(1/n), 5 sqrt(2/n), 5 sqrt(96/n), 5 sqrt(1/(12 n)).
  CHECK(std::abs(sum / kCount) < 0.0112);
  CHECK(std::abs(squares / kCount - 1) < 0.0159);
  CHECK(std::abs(fourth / kCount - 3) < 0.11);
  CHECK(std::abs(uniform / kCount - 0.5) < 0.0033);
}

TEST_CASE("a permutation visits every place once, for any size") {
  for (const Index size : {1, 2, 3, 4, 5, 16, 17, 100, 1000}) {
    const Permutation permutation(3, "order", size);
    std::vector<int> seen(size, 0);
    for (Index i = 0; i < size; ++i) ++seen[permutation(i)];
    for (const int count : seen) CHECK(count == 1);
  }
}

TEST_CASE("permutations of different names differ") {
  const Permutation a(3, "epoch 0", 1000), b(3, "epoch 1", 1000);
  int equal = 0;
  for (Index i = 0; i < 1000; ++i) equal += a(i) == b(i);
  CHECK(equal < 20);
}

}  // namespace zaya
