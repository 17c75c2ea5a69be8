// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/storage_type.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/testing.h"

namespace zaya {

namespace {

// One element converted, as its bits.
template <class To, class From>
To converted(StorageType from, From value) {
  std::byte packed[sizeof(From) + 1];
  std::memcpy(packed + 1, &value, sizeof(From));  // an odd address
  To out;
  convert_elements(from, std::span(packed + 1, sizeof(From)),
                   Tensor(reinterpret_cast<std::byte*>(&out), dtype_of<To>, {}));
  return out;
}

}  // namespace

TEST_CASE("every type has its name, found again only in its exact spelling") {
  for (int i = 0; i < kNumStorageTypes; ++i) {
    const StorageType type = static_cast<StorageType>(i);
    CHECK(storage_type_from_name(name_of(type)) == type);
  }
  CHECK_FALSE(storage_type_from_name("f32").has_value());
  CHECK_FALSE(storage_type_from_name("").has_value());
  for (const DType dtype :
       {DType::f32, DType::bf16, DType::f64, DType::i64, DType::i32, DType::u16, DType::u8}) {
    CHECK(dtype_of_storage(storage_type_of(dtype)) == dtype);
    CHECK(bits_of(storage_type_of(dtype)) == static_cast<std::uint64_t>(size_of(dtype)) * 8);
  }
}

TEST_CASE("every half-precision number converts exactly") {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = converted<float>(StorageType::f16, static_cast<std::uint16_t>(bits));
    const int exponent = static_cast<int>((bits >> 10) & 31);
    const double fraction = bits & 1023;
    double expected =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) {
      expected = fraction == 0 ? std::numeric_limits<double>::infinity()
                               : std::numeric_limits<double>::quiet_NaN();
    }
    if (std::isnan(expected)) {
      CHECK(std::isnan(value));
    } else if (static_cast<double>(value) != ((bits & 0x8000) != 0 ? -expected : expected)) {
      FAIL("half " << bits << " became " << value);
    }
    if (std::signbit(value) != ((bits & 0x8000) != 0)) FAIL("sign of half " << bits);
  }
}

TEST_CASE("narrowing rounds once, to nearest, ties to even") {
  CHECK(converted<bf16>(StorageType::f32, 1.0f + 0x1p-8f).bits == bf16(1.0f).bits);
  CHECK(converted<bf16>(StorageType::f32, 1.0f + 3 * 0x1p-8f).bits == bf16(1.0f + 0x1p-6f).bits);
  CHECK(converted<float>(StorageType::f64, 0.1) == 0.1f);
  // Just above a tie for bf16 and closer to it than a float can tell: rounding twice gives 1.
  CHECK(converted<bf16>(StorageType::f64, 1.0 + 0x1p-8 + 0x1p-40).bits ==
        bf16(1.0f + 0x1p-7f).bits);
  CHECK(converted<bf16>(StorageType::f64, -(1.0 + 0x1p-8 + 0x1p-40)).bits ==
        bf16(-(1.0f + 0x1p-7f)).bits);
  CHECK(converted<bf16>(StorageType::f64, 1.0 + 3 * 0x1p-8 - 0x1p-40).bits ==
        bf16(1.0f + 0x1p-7f).bits);
  CHECK(std::isinf(static_cast<float>(converted<bf16>(StorageType::f64, 1e300))));
  CHECK(std::isnan(converted<float>(StorageType::bf16, static_cast<std::uint16_t>(0x7fc0))));
  CHECK(converted<double>(StorageType::f32, 0.1f) == static_cast<double>(0.1f));
  CHECK(converted<std::int64_t>(StorageType::i64, std::int64_t{-5}) == -5);
}

TEST_CASE("reading into the wrong shape or type names both sides") {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const StoredTensor stored{{"w", StorageType::f32, {2, 3}},
                            std::as_bytes(std::span(values.data(), values.size()))};
  std::vector<float> out(6);
  const auto into = [&](DType dtype, const Shape& shape) {
    return error_of(ErrorKind::damaged, [&] {
      read_stored_tensor(stored, Tensor(reinterpret_cast<std::byte*>(out.data()), dtype, shape),
                         "model");
    });
  };
  CHECK(into(DType::f32, {2, 3}).empty());
  CHECK(out == values);
  CHECK(into(DType::f32, {3, 2}) == "model: tensor \"w\" is F32 [2, 3] but f32 [3, 2] is needed");
  CHECK(into(DType::i32, {2, 3}).find("can't be read as i32") != std::string::npos);
}

TEST_CASE("values of every plain type are told") {
  const std::int8_t small = -3;
  CHECK(value_at(StorageType::i8, reinterpret_cast<const std::byte*>(&small), 0) == -3);
  const std::uint64_t large = std::uint64_t{1} << 63;
  CHECK(value_at(StorageType::u64, reinterpret_cast<const std::byte*>(&large), 0) == 0x1p63);
  CHECK_FALSE(has_values(StorageType::f8_e4m3));
  CHECK(has_values(StorageType::boolean));
}

}  // namespace zaya
