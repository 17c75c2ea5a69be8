// SPDX-License-Identifier: Apache-2.0
//
// Windows whose dtype and shape are known at run time, for the places where data is moved: layers,
// optimizer, communicator, checkpoint. Neither owns memory; who may write is in the type.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensor/view.h"

namespace zaya {

namespace internal {

[[noreturn]] void tensor_mismatch(DType dtype, const Shape& shape, DType wanted, int rank);

}  // namespace internal

// Byte is std::byte or const std::byte. Use the names Tensor and ConstTensor.
//
// Row-major. Rows (the last dim) are contiguous and `row_stride` elements apart when the tensor is
// seen as [rows, last]; only column windows have a row_stride that differs from the last dim.
template <class Byte>
class BasicTensor {
 public:
  BasicTensor() = default;
  BasicTensor(Byte* data, DType dtype, Shape shape)
      : data_(data), dtype_(dtype), shape_(shape), row_stride_(shape.last()) {}
  BasicTensor(Byte* data, DType dtype, Shape shape, Index row_stride)
      : data_(data), dtype_(dtype), shape_(shape), row_stride_(row_stride) {}
  template <class Other>
  requires(std::is_const_v<Byte> && !std::is_const_v<Other>)
      BasicTensor(const BasicTensor<Other>& other)
      : data_(other.data()),
        dtype_(other.dtype()),
        shape_(other.shape()),
        row_stride_(other.row_stride()) {}

  Byte* data() const { return data_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  Index dim(int i) const { return shape_[i]; }
  Index rows() const { return shape_.rows(); }
  Index columns() const { return shape_.last(); }
  Index count() const { return shape_.count(); }
  Index row_stride() const { return row_stride_; }
  bool is_contiguous() const { return row_stride_ == shape_.last() || shape_.rows() <= 1; }
  Index num_bytes() const { return count() * size_of(dtype_); }
  // No tensor at all (an absent bias). A tensor of a dry arena has no data but is not empty.
  bool is_none() const { return shape_.rank() == 0 && data_ == nullptr; }

  // Same elements, other shape of equal count. Only for contiguous tensors.
  BasicTensor reshaped(Shape shape) const {
    ZAYA_CHECK(is_contiguous() && shape.count() == count(), to_string(shape));
    return {data_, dtype_, shape};
  }
  // Entry i of the first dim, with rank one less. Only for contiguous tensors of rank >= 2 (or 1).
  BasicTensor operator[](Index i) const {
    ZAYA_CHECK(is_contiguous() && shape_.rank() >= 1 && i >= 0 && i < shape_[0]);
    const Shape inner(shape_.dims().subspan(1));
    return {offset(i * inner.count()), dtype_, inner};
  }
  // Entries [begin, end) of the first dim.
  BasicTensor slice(Index begin, Index end) const {
    ZAYA_CHECK(shape_.rank() >= 1 && 0 <= begin && begin <= end && end <= shape_[0]);
    std::array<Index, Shape::kMaxRank> dims{};
    for (int k = 0; k < shape_.rank(); ++k) dims[k] = shape_[k];
    const Index step =
        shape_.rank() == 1 ? 1 : row_stride_ * (rows() / std::max<Index>(dims[0], 1));
    dims[0] = end - begin;
    return {offset(begin * step), dtype_, Shape(std::span(dims.data(), shape_.rank())),
            shape_.rank() == 1 ? end - begin : row_stride_};
  }
  // Columns [begin, end) of a rank-2 tensor.
  BasicTensor column_window(Index begin, Index end) const {
    ZAYA_CHECK(shape_.rank() == 2 && 0 <= begin && begin <= end && end <= shape_[1]);
    return {offset(begin), dtype_, Shape{shape_[0], end - begin}, row_stride_};
  }

  // The only bridge to views. A rank of 1 flattens a contiguous tensor; otherwise the rank must
  // match, and column windows are possible for rank 2 only.
  template <class T, int Rank>
  auto as() const {
    using Element = std::conditional_t<std::is_const_v<Byte>, const T, T>;
    if (dtype_of<T> != dtype_ || (Rank != 1 && Rank != shape_.rank()) ||
        (Rank != 2 && !is_contiguous())) {
      internal::tensor_mismatch(dtype_, shape_, dtype_of<T>, Rank);
    }
    Element* data = reinterpret_cast<Element*>(data_);
    if constexpr (Rank == 1) {
      return View<Element, 1>(data, {count()});
    } else {
      std::array<Index, Rank> dims;
      for (int i = 0; i < Rank; ++i) dims[i] = shape_[i];
      if constexpr (Rank == 2) {
        return View<Element, 2>(data, dims, {row_stride_, 1});
      } else {
        return View<Element, Rank>(data, dims);
      }
    }
  }

 private:
  // Dry tensors have no address to move.
  Byte* offset(Index elements) const {
    return data_ == nullptr ? nullptr : data_ + elements * size_of(dtype_);
  }

  Byte* data_ = nullptr;
  DType dtype_ = DType::f32;
  Shape shape_;
  Index row_stride_ = 1;
};

using Tensor = BasicTensor<std::byte>;
using ConstTensor = BasicTensor<const std::byte>;

// A vector as a tensor [size]; no tensor for an empty vector. The vector must outlive it unchanged.
template <class T>
ConstTensor tensor_over(const std::vector<T>& values) {
  if (values.empty()) return {};
  return {reinterpret_cast<const std::byte*>(values.data()), dtype_of<T>,
          Shape{static_cast<Index>(values.size())}};
}

// "f32 [2, 3]".
std::string describe(const ConstTensor& tensor);

}  // namespace zaya
