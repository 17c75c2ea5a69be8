// SPDX-License-Identifier: Apache-2.0
//
// What tests of kernels share: memory, random tensors of any dtype, comparisons. Element by element
// and slow; for tests only.
#pragma once

#include <cmath>
#include <complex>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace zaya {

// Owns the memory of a test's tensors, which live as long as it does.
class TestArena {
 public:
  Tensor take(DType dtype, Shape shape) { return arena_.take(dtype, shape); }
  Arena& arena() { return arena_; }

 private:
  Arena arena_{"test", Index{256} << 20};
};

namespace internal {

// Offset in bytes of element i, counted row by row; column windows are possible.
inline Index element_offset(const ConstTensor& x, Index i) {
  ZAYA_CHECK(i >= 0 && i < x.count());
  const Index element =
      x.shape().rank() < 2 ? i : i / x.columns() * x.row_stride() + i % x.columns();
  return element * size_of(x.dtype());
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace internal

// Element i (row by row) of a tensor of any dtype.
inline std::complex<double> element(const ConstTensor& x, Index i) {
  const std::byte* from = x.data() + internal::element_offset(x, i);
  switch (x.dtype()) {
    case DType::f32: return internal::load<float>(from);
    case DType::bf16: return static_cast<float>(internal::load<bf16>(from));
    case DType::f64: return internal::load<double>(from);
    case DType::c128: return internal::load<std::complex<double>>(from);
    case DType::i64: return static_cast<double>(internal::load<std::int64_t>(from));
    case DType::i32: return internal::load<std::int32_t>(from);
    case DType::u16: return internal::load<std::uint16_t>(from);
    case DType::u8: return internal::load<std::uint8_t>(from);
  }
  return 0;
}

// Rounds to the dtype of x; only c128 keeps an imaginary part.
inline void set_element(const Tensor& x, Index i, std::complex<double> value) {
  std::byte* to = x.data() + internal::element_offset(x, i);
  const double real = value.real();
  switch (x.dtype()) {
    case DType::f32: internal::store(to, static_cast<float>(real)); break;
    case DType::bf16: internal::store(to, bf16(static_cast<float>(real))); break;
    case DType::f64: internal::store(to, real); break;
    case DType::c128: internal::store(to, value); break;
    case DType::i64: internal::store(to, static_cast<std::int64_t>(real)); break;
    case DType::i32: internal::store(to, static_cast<std::int32_t>(real)); break;
    case DType::u16: internal::store(to, static_cast<std::uint16_t>(real)); break;
    case DType::u8: internal::store(to, static_cast<std::uint8_t>(real)); break;
  }
}

inline void fill(const Tensor& x, double value) {
  for (Index i = 0; i < x.count(); ++i) set_element(x, i, value);
}

// mean + scale * standard normal. Equal names give equal values (before rounding) in every dtype.
inline void randomize(const Tensor& x, std::string_view name, double scale = 1, double mean = 0) {
  const Rng rng(1, name);
  for (Index i = 0; i < x.count(); ++i) set_element(x, i, mean + scale * rng.normal(i));
}

inline Tensor random_tensor(TestArena& arena, DType dtype, Shape shape, std::string_view name,
                            double scale = 1, double mean = 0) {
  const Tensor x = arena.take(dtype, shape);
  randomize(x, name, scale, mean);
  return x;
}

inline Tensor filled_tensor(TestArena& arena, DType dtype, Shape shape, double value) {
  const Tensor x = arena.take(dtype, shape);
  fill(x, value);
  return x;
}

// A rank-1 tensor with these values.
inline Tensor list_tensor(TestArena& arena, DType dtype, const std::vector<double>& values) {
  const Tensor x = arena.take(dtype, {static_cast<Index>(values.size())});
  for (Index i = 0; i < x.count(); ++i) set_element(x, i, values[i]);
  return x;
}

// A contiguous copy in another (or the same) dtype.
inline Tensor converted(TestArena& arena, const ConstTensor& x, DType dtype) {
  if (x.is_none()) return {};
  const Tensor y = arena.take(dtype, x.shape());
  for (Index i = 0; i < x.count(); ++i) set_element(y, i, element(x, i));
  return y;
}

// Real parts, row by row.
inline std::vector<double> values(const ConstTensor& x) {
  std::vector<double> all(x.count());
  for (Index i = 0; i < x.count(); ++i) all[i] = element(x, i).real();
  return all;
}

// Euclidean norm of a - b over that of b; the norm of a when b is zero. NaN comes through.
inline double relative_error(const ConstTensor& a, const ConstTensor& b) {
  ZAYA_CHECK(a.shape() == b.shape());
  double difference = 0, norm = 0;
  for (Index i = 0; i < a.count(); ++i) {
    difference += std::norm(element(a, i) - element(b, i));
    norm += std::norm(element(b, i));
  }
  return std::sqrt(norm == 0 ? difference : difference / norm);
}

inline bool equal_bits(const ConstTensor& a, const ConstTensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  for (Index i = 0; i < a.count(); ++i) {
    if (std::memcmp(a.data() + internal::element_offset(a, i),
                    b.data() + internal::element_offset(b, i), size_of(a.dtype())) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace zaya
