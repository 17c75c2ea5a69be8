// SPDX-License-Identifier: Apache-2.0
//
// Extents of a tensor: rank 0 to 4, row-major.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>

#include "base/check.h"
#include "base/types.h"

namespace zaya {

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<Index> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const Index> dims) : rank_(static_cast<int>(dims.size())) {
    ZAYA_CHECK(rank_ <= kMaxRank);
    for (int i = 0; i < rank_; ++i) {
      ZAYA_CHECK(dims[i] >= 0);
      dims_[i] = dims[i];
    }
  }

  int rank() const { return rank_; }
  Index operator[](int i) const {
    ZAYA_DCHECK(i >= 0 && i < rank_);
    return dims_[i];
  }
  Index last() const { return rank_ == 0 ? 1 : dims_[rank_ - 1]; }
  // Number of elements (1 for rank 0), and the number of rows of length last().
  Index count() const {
    Index n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[i];
    return n;
  }
  Index rows() const {
    Index n = 1;
    for (int i = 0; i + 1 < rank_; ++i) n *= dims_[i];
    return n;
  }
  std::span<const Index> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }
  bool operator==(const Shape&) const = default;

 private:
  int rank_ = 0;
  std::array<Index, kMaxRank> dims_{};
};

// "[2, 3]".
std::string to_string(const Shape& shape);

}  // namespace zaya
