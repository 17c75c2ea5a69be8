// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/storage_type.h"

#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/bf16.h"
#include "base/check.h"

namespace zaya {

namespace {

struct TypeInfo {
  std::string_view name;
  std::uint64_t bits;
};

constexpr TypeInfo kTypes[kNumStorageTypes] = {
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
};

template <class T>
T load(const std::byte* data, std::uint64_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 31u;
  const std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  }
  // Subnormal: fraction * 2^-24, exact in a float.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

// Elements of one source type, read one by one in the type that holds them exactly.
struct FromF32 {
  static float get(const std::byte* data, std::uint64_t i) { return load<float>(data, i); }
};
struct FromBf16 {
  static float get(const std::byte* data, std::uint64_t i) {
    return static_cast<float>(load<bf16>(data, i));
  }
};
struct FromF16 {
  static float get(const std::byte* data, std::uint64_t i) {
    return half_to_float(load<std::uint16_t>(data, i));
  }
};
struct FromF64 {
  static double get(const std::byte* data, std::uint64_t i) { return load<double>(data, i); }
};

// Rounds once: a double on its way to bfloat16 goes through a float rounded to odd.
float to_float_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (x != x || static_cast<double>(nearest) == x) return nearest;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  if ((bits & 1u) != 0) return nearest;
  // The neighbour on the other side of x has an odd last bit.
  const bool is_beyond = (nearest > x) == (nearest > 0) && nearest != 0;
  return std::bit_cast<float>(is_beyond ? bits - 1 : bits + 1);
}

template <class To>
To rounded(float x) {
  return static_cast<To>(x);
}
template <class To>
To rounded(double x) {
  if constexpr (std::is_same_v<To, bf16>) {
    return bf16(to_float_odd(x));
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
void convert_each(const std::byte* data, std::uint64_t count, std::byte* out) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const To value = rounded<To>(From::get(data, i));
    std::memcpy(out + i * sizeof(To), &value, sizeof(To));
  }
}

template <class To>
void convert_to(StorageType from, const std::byte* data, std::uint64_t count, std::byte* out) {
  switch (from) {
    case StorageType::f32: return convert_each<FromF32, To>(data, count, out);
    case StorageType::bf16: return convert_each<FromBf16, To>(data, count, out);
    case StorageType::f16: return convert_each<FromF16, To>(data, count, out);
    default: return convert_each<FromF64, To>(data, count, out);
  }
}

bool is_float(StorageType type) {
  return type == StorageType::f32 || type == StorageType::bf16 || type == StorageType::f16 ||
         type == StorageType::f64;
}

}  // namespace

std::string_view name_of(StorageType type) { return kTypes[static_cast<int>(type)].name; }

std::uint64_t bits_of(StorageType type) { return kTypes[static_cast<int>(type)].bits; }

std::optional<StorageType> storage_type_from_name(std::string_view name) {
  for (int i = 0; i < kNumStorageTypes; ++i) {
    if (kTypes[i].name == name) return static_cast<StorageType>(i);
  }
  return std::nullopt;
}

StorageType storage_type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return StorageType::f32;
    case DType::bf16: return StorageType::bf16;
    case DType::f64: return StorageType::f64;
    case DType::i64: return StorageType::i64;
    case DType::i32: return StorageType::i32;
    case DType::u16: return StorageType::u16;
    case DType::u8: return StorageType::u8;
    case DType::c128: break;
  }
  ZAYA_CHECK(false, "c128 has no storage type");
  return StorageType::u8;
}

std::optional<DType> dtype_of_storage(StorageType type) {
  switch (type) {
    case StorageType::f32: return DType::f32;
    case StorageType::bf16: return DType::bf16;
    case StorageType::f64: return DType::f64;
    case StorageType::i64: return DType::i64;
    case StorageType::i32: return DType::i32;
    case StorageType::u16: return DType::u16;
    case StorageType::u8: return DType::u8;
    default: return std::nullopt;
  }
}

bool has_values(StorageType type) {
  switch (type) {
    case StorageType::f4:
    case StorageType::f6_e2m3:
    case StorageType::f6_e3m2:
    case StorageType::f8_e5m2:
    case StorageType::f8_e4m3:
    case StorageType::f8_e8m0:
    case StorageType::f8_e4m3fnuz:
    case StorageType::f8_e5m2fnuz:
    case StorageType::c64: return false;
    default: return true;
  }
}

double value_at(StorageType type, const std::byte* data, std::uint64_t i) {
  switch (type) {
    case StorageType::boolean:
    case StorageType::u8: return load<std::uint8_t>(data, i);
    case StorageType::i8: return load<std::int8_t>(data, i);
    case StorageType::i16: return load<std::int16_t>(data, i);
    case StorageType::u16: return load<std::uint16_t>(data, i);
    case StorageType::i32: return load<std::int32_t>(data, i);
    case StorageType::u32: return load<std::uint32_t>(data, i);
    case StorageType::i64: return static_cast<double>(load<std::int64_t>(data, i));
    case StorageType::u64: return static_cast<double>(load<std::uint64_t>(data, i));
    case StorageType::f16: return FromF16::get(data, i);
    case StorageType::bf16: return FromBf16::get(data, i);
    case StorageType::f32: return FromF32::get(data, i);
    case StorageType::f64: return FromF64::get(data, i);
    default: return std::numeric_limits<double>::quiet_NaN();
  }
}

bool is_convertible(StorageType from, DType to) {
  if (dtype_of_storage(from) == to) return true;
  return is_float(from) && (to == DType::f32 || to == DType::bf16 || to == DType::f64);
}

void convert_elements(StorageType from, std::span<const std::byte> bytes, Tensor out) {
  const std::uint64_t count = static_cast<std::uint64_t>(out.count());
  ZAYA_CHECK(is_convertible(from, out.dtype()) && out.is_contiguous());
  ZAYA_CHECK(bytes.size() * 8 == count * bits_of(from));
  if (count == 0) return;
  if (dtype_of_storage(from) == out.dtype()) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return;
  }
  switch (out.dtype()) {
    case DType::f32: return convert_to<float>(from, bytes.data(), count, out.data());
    case DType::bf16: return convert_to<bf16>(from, bytes.data(), count, out.data());
    default: return convert_to<double>(from, bytes.data(), count, out.data());
  }
}

}  // namespace zaya
