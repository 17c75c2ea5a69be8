// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "backend/bench/kernels.h"

namespace zaya {

namespace {

struct ProductShape {
  Index rows, in, out;
};

double flops_of(const ProductShape& s) {
  return 2.0 * static_cast<double>(s.rows) * static_cast<double>(s.in) * static_cast<double>(s.out);
}

class ProductBench {
 public:
  ProductBench(const Backend& backend, double seconds)
      : backend_(backend), yardstick_(backend), memory_(backend), seconds_(seconds) {}

  std::vector<BenchRow> run();

 private:
  void all_of(const ProductShape& shape);
  void square(Index n, Index m);
  void add(const std::string& name, const ProductShape& shape, FunctionRef<void()> body);

  const Backend& backend_;
  ProductYardstick yardstick_;
  BenchMemory memory_;
  double seconds_;
  std::vector<BenchRow> rows_;
};

void ProductBench::add(const std::string& name, const ProductShape& s, FunctionRef<void()> body) {
  const std::string what = fmt::format("{} {} x {} x {}", name, s.rows, s.in, s.out);
  rows_.push_back(against_product(what, flops_of(s), 0, body, yardstick_, seconds_));
}

void ProductBench::all_of(const ProductShape& s) {
  const Rewind rewind(memory_.arena());
  const DType type = backend_.compute(), sums = backend_.stream();
  const Tensor x = memory_.values(type, {s.rows, s.in});
  const Tensor w = memory_.values(type, {s.out, s.in}, 0.05);
  const Tensor y = memory_.values(type, {s.rows, s.out});
  const Tensor dw = memory_.zeros(sums, {s.out, s.in});
  add("forward", s, [&] { backend_.gemm->forward(x, w, ConstTensor{}, y); });
  add("input gradient", s, [&] { backend_.gemm->backward_input(y, w, x, false); });
  add("weight gradient", s, [&] { backend_.gemm->backward_weight(y, x, dw, Tensor{}); });
}

void ProductBench::square(Index n, Index m) {
  const Rewind rewind(memory_.arena());
  const DType type = backend_.compute();
  const Tensor x = memory_.values(type, {n, m}, 0.05);
  const Tensor y = memory_.zeros(type, {n, n}), z = memory_.zeros(type, {n, m});
  // Half of a symmetric product is its mirror image.
  const double flops = flops_of({n, m, n}) / 2;
  rows_.push_back(against_product(
      fmt::format("x x^T (half counted) {} x {}", n, m), flops, 0,
      [&] { backend_.gemm->symmetric(x, 1, ConstTensor{}, 0, y); }, yardstick_, seconds_));
  add("a x + p x", {n, n, m}, [&] { backend_.gemm->multiply_add(y, x, 1, z); });
}

std::vector<BenchRow> ProductBench::run() {
  for (const ProductShape& shape :
       {ProductShape{2048, 512, 512}, ProductShape{2048, 512, 1024}, ProductShape{2048, 1024, 2048},
        ProductShape{4096, 1024, 1024}, ProductShape{512, 1024, 32768}}) {
    all_of(shape);
  }
  square(1024, 1024);
  square(1024, 2048);
  return rows_;
}

}  // namespace

std::vector<BenchRow> bench_products(const Backend& backend, double seconds) {
  return ProductBench(backend, seconds).run();
}

}  // namespace zaya
