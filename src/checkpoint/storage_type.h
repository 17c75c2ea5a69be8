// SPDX-License-Identifier: Apache-2.0
//
// Element types of tensors in safetensors files, and their way into tensors in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tensor/tensor.h"

namespace zaya {

// In the order by which the official writer ranks them: narrow first.
enum class StorageType : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};

inline constexpr int kNumStorageTypes = 22;

// Name in files: "F32", "BF16", "F8_E4M3".
std::string_view name_of(StorageType type);
std::uint64_t bits_of(StorageType type);
std::optional<StorageType> storage_type_from_name(std::string_view name);

// The type that holds a tensor in memory bit by bit. c128 has none: it never reaches a file.
StorageType storage_type_of(DType dtype);
// The DType with the same elements, if there is one.
std::optional<DType> dtype_of_storage(StorageType type);

// Value number i of elements packed from `data` on, at any alignment, as a double; NaN for types
// without a numeric meaning here (8-bit and smaller floats, complex numbers). I64 and U64 round.
double value_at(StorageType type, const std::byte* data, std::uint64_t i);
// Can value_at() tell values of this type?
bool has_values(StorageType type);

// Can elements of this type become elements of that one: equal types, and F64, F32, BF16 and F16
// into f32, bf16 and f64?
bool is_convertible(StorageType from, DType to);
// Fills `out` (contiguous) from packed elements of type `from`, at any alignment; rounds to
// nearest, ties to even. The number of bytes must fit and the types be convertible: anything else
// is our own defect.
void convert_elements(StorageType from, std::span<const std::byte> bytes, Tensor out);

}  // namespace zaya
