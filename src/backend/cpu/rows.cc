// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/rows.h"

#include <algorithm>

#include "backend/cpu/context.h"
#include "backend/cpu/product_simd.h"
#include "base/check.h"

namespace zaya {

namespace {

// Columns of one task that sums parts, where there is enough to share.
constexpr Index kPartColumns = 1024;
constexpr Index kFewElements = 65536;

bool is_bf16(DType dtype) {
  ZAYA_CHECK(dtype == DType::f32 || dtype == DType::bf16, std::string(name_of(dtype)));
  return dtype == DType::bf16;
}

}  // namespace

ConstRows rows_of(const ConstTensor& x) {
  return {.data = x.data(), .stride = x.row_stride(), .is_bf16 = is_bf16(x.dtype())};
}

Rows mutable_rows_of(const Tensor& x) {
  return {.data = x.data(), .stride = x.row_stride(), .is_bf16 = is_bf16(x.dtype())};
}

void run_blocks(ThreadPool& pool, Index count, Index length,
                FunctionRef<void(Index begin, Index end, int worker)> body) {
  pool.run(num_blocks(count, length), [&](Index block, int worker) {
    const Index begin = block * length;
    body(begin, std::min(count, begin + length), worker);
  });
}

void add_parts(CpuContext& context, const float* parts, Index num_parts, Index width, float* sums) {
  const ProductSimd& simd = product_simd(context.set);
  const Index columns =
      num_parts * width <= kFewElements ? std::max<Index>(1, width) : kPartColumns;
  run_blocks(context.pool, width, columns, [&](Index begin, Index end, int) {
    simd.add_column_sums(parts + begin, false, width, num_parts, end - begin, sums + begin);
  });
}

}  // namespace zaya
