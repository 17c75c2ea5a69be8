// SPDX-License-Identifier: Apache-2.0
//
// Element types of tensors in memory.
#pragma once

#include <complex>
#include <cstdint>
#include <string_view>

#include "base/bf16.h"
#include "base/types.h"

namespace zaya {

// f32 and bf16 are what runs use; f64 and c128 serve exact references and complex-step gradients.
enum class DType { f32, bf16, f64, c128, i64, i32, u16, u8 };

Index size_of(DType dtype);             // bytes per element
std::string_view name_of(DType dtype);  // "f32"

// The DType of a C++ type.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<std::complex<double>> {
  static constexpr DType value = DType::c128;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};

template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace zaya
