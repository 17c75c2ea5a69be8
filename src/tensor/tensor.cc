// SPDX-License-Identifier: Apache-2.0
#include "tensor/tensor.h"

#include <fmt/core.h>
#include <fmt/format.h>

namespace zaya {

Index size_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return 4;
    case DType::bf16: return 2;
    case DType::f64: return 8;
    case DType::c128: return 16;
    case DType::i64: return 8;
    case DType::i32: return 4;
    case DType::u16: return 2;
    case DType::u8: return 1;
  }
  return 0;
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::bf16: return "bf16";
    case DType::f64: return "f64";
    case DType::c128: return "c128";
    case DType::i64: return "i64";
    case DType::i32: return "i32";
    case DType::u16: return "u16";
    case DType::u8: return "u8";
  }
  return "?";
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.dims().begin(), shape.dims().end(), ", "));
}

std::string describe(const ConstTensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.dtype()), to_string(tensor.shape()));
}

namespace internal {

void tensor_mismatch(DType dtype, const Shape& shape, DType wanted, int rank) {
  check_failed("tensor.h", 0, "tensor.as<T, Rank>()",
               fmt::format("{} {} seen as {} of rank {}", name_of(dtype), to_string(shape),
                           name_of(wanted), rank));
}

}  // namespace internal

}  // namespace zaya
