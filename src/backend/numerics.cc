// SPDX-License-Identifier: Apache-2.0
#include "backend/numerics.h"

namespace zaya {

DType stream_dtype(Numerics numerics) {
  switch (numerics) {
    case Numerics::f32:
    case Numerics::bf16: return DType::f32;
    case Numerics::f64: return DType::f64;
    case Numerics::c128: return DType::c128;
  }
  return DType::f32;
}

DType compute_dtype(Numerics numerics) {
  return numerics == Numerics::bf16 ? DType::bf16 : stream_dtype(numerics);
}

std::string_view name_of(Numerics numerics) {
  switch (numerics) {
    case Numerics::f32: return "f32";
    case Numerics::bf16: return "bf16";
    case Numerics::f64: return "f64";
    case Numerics::c128: return "c128";
  }
  return "?";
}

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return 0x1p-23;
    case DType::bf16: return 0x1p-7;
    default: return 0x1p-52;
  }
}

Numerics run_numerics(std::string_view name) {
  return name == "bf16" ? Numerics::bf16 : Numerics::f32;
}

}  // namespace zaya
