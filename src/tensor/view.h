// SPDX-License-Identifier: Apache-2.0
//
// Typed windows for the places where elements are touched: kernels and tests.
#pragma once

#include <array>
#include <type_traits>

#include "base/check.h"
#include "base/types.h"

namespace zaya {

// A window of Rank dims over elements of type T. The last dim is contiguous; rows of a rank-2 view
// may be further apart than their length. Owns nothing; passed by value; whoever made it keeps the
// memory alive. A mutable view converts to a read-only one, never back.
template <class T, int Rank>
class View {
 public:
  static_assert(Rank >= 1 && Rank <= 4);

  View() = default;
  View(T* data, std::array<Index, Rank> dims) : data_(data), dims_(dims) {
    Index stride = 1;
    for (int i = Rank - 1; i >= 0; --i) {
      strides_[i] = stride;
      stride *= dims[i];
    }
  }
  View(T* data, std::array<Index, Rank> dims, std::array<Index, Rank> strides)
      : data_(data), dims_(dims), strides_(strides) {}
  template <class U>
  requires(std::is_same_v<const U, T>) View(View<U, Rank> other)
      : data_(other.data()), dims_(other.dims()), strides_(other.strides()) {}

  T* data() const { return data_; }
  Index dim(int i) const { return dims_[i]; }
  Index stride(int i) const { return strides_[i]; }
  const std::array<Index, Rank>& dims() const { return dims_; }
  const std::array<Index, Rank>& strides() const { return strides_; }

  // Drops the first dim; for rank 1 the element.
  decltype(auto) operator[](Index i) const {
    ZAYA_DCHECK(i >= 0 && i < dims_[0]);
    if constexpr (Rank == 1) {
      return static_cast<T&>(data_[i]);
    } else {
      std::array<Index, Rank - 1> dims, strides;
      for (int k = 1; k < Rank; ++k) {
        dims[k - 1] = dims_[k];
        strides[k - 1] = strides_[k];
      }
      return View<T, Rank - 1>(data_ + i * strides_[0], dims, strides);
    }
  }

  T* begin() const requires(Rank == 1) { return data_; }
  T* end() const requires(Rank == 1) { return data_ + dims_[0]; }

 private:
  T* data_ = nullptr;
  std::array<Index, Rank> dims_{};
  std::array<Index, Rank> strides_{};
};

}  // namespace zaya
