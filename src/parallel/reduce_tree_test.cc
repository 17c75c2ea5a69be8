// SPDX-License-Identifier: Apache-2.0
#include "parallel/reduce_tree.h"

#include <doctest/doctest.h>

#include "tensor/arena.h"

namespace zaya {

namespace {

// Sum of the lanes' values in the order of the tree. Lane i contributes values[i].
float tree_sum(const std::vector<float>& values) {
  const Backend backend = make_ref_backend(Numerics::f32);
  Arena arena("test", 1 << 16);
  std::vector<Tensor> buffers;
  const Index lanes = static_cast<Index>(values.size());
  for (Index i = 0; i < LaneSum::num_buffers(lanes); ++i) {
    buffers.push_back(arena.take(DType::f32, {1}));
  }
  LaneSum sum(lanes, buffers);
  float result = 0;
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (const float value : values) {
      sum.begin_lane(backend).as<float, 1>()[0] += value;
      sum.end_lane(backend);
    }
    result = sum.finish(backend).as<float, 1>()[0];
  }
  return result;
}

}  // namespace

TEST_CASE("lanes are added in the order of the documented tree") {
  // With 2^-24 next to 1 the order shows: pairs of small values must meet before they meet 1.
  const float e = 0x1p-24f;
  CHECK(tree_sum({1, e, e, e}) == ((1 + e) + (e + e)));
  CHECK(tree_sum({e, e, 1, e}) == ((e + e) + (1 + e)));
  CHECK(tree_sum({e, e, e, e, 1}) == (((e + e) + (e + e)) + 1));
  CHECK(tree_sum({1, e, e, e, e, e, e}) == (((1 + e) + (e + e)) + ((e + e) + e)));
  CHECK(tree_sum({5}) == 5);
}

TEST_CASE("one buffer per level is enough") {
  CHECK(LaneSum::num_buffers(1) == 1);
  CHECK(LaneSum::num_buffers(2) == 2);
  CHECK(LaneSum::num_buffers(5) == 4);
  CHECK(LaneSum::num_buffers(8) == 4);
  for (Index lanes = 1; lanes <= 33; ++lanes) {
    CHECK(tree_sum(std::vector<float>(lanes, 1)) == static_cast<float>(lanes));
  }
}

}  // namespace zaya
