// SPDX-License-Identifier: Apache-2.0
#include "backend/bench/kernels.h"

namespace zaya {

namespace {

// Larger than any cache.
constexpr Index kTokens = 32768, kWidth = 1024;
constexpr double kElements = static_cast<double>(kTokens) * kWidth;

}  // namespace

std::vector<BenchRow> bench_elementwise(const Backend& backend, ThreadPool& pool, double seconds) {
  BenchMemory memory(backend);
  CopyYardstick copy(pool);
  const DType type = backend.compute(), wide = backend.stream();
  const double narrow = static_cast<double>(size_of(type));
  const Shape shape{kTokens, kWidth}, vector{kWidth};
  const Tensor x = memory.values(wide, shape), y = memory.values(wide, shape);
  const Tensor m = memory.values(wide, shape), v = memory.values(wide, shape);
  const Tensor a = memory.values(type, shape), da = memory.values(type, shape);
  const Tensor w = memory.values(wide, vector), dw = memory.zeros(wide, vector);
  const Tensor inv_rms = memory.values(wide, {kTokens});
  const Tensor d1 = memory.zeros(wide, vector), d2 = memory.zeros(wide, vector);
  const Tensor d3 = memory.zeros(wide, vector), d4 = memory.zeros(wide, vector);
  backend.move->scale(0, v);  // second moments are not negative
  const bool has_copy = type != wide;

  std::vector<BenchRow> rows;
  const auto add = [&](const char* name, double bytes_per_element, FunctionRef<void()> body) {
    rows.push_back(against_copy(name, bytes_per_element * kElements, 0.8, body, copy, seconds));
  };
  AdamWArgs adamw;
  adamw.value = x;
  adamw.first_moment = m;
  adamw.second_moment = v;
  adamw.grad = y;
  if (has_copy) adamw.copy = a;
  adamw.learning_rate = 1e-4;
  adamw.weight_decay = 0.1;
  adamw.correction1 = 0.1;
  adamw.correction2 = 0.05;
  add("AdamW", 28 + (has_copy ? narrow : 0), [&] { backend.optim->adamw(adamw); });
  add("gradient norm", 4, [&] { static_cast<void>(backend.optim->sum_squares(y)); });
  add("RMS norm: forward", 4 + narrow, [&] { backend.norm->rms_forward(x, w, 1e-6, a, inv_rms); });
  add("RMS norm: backward", 8 + narrow,
      [&] { backend.norm->rms_backward(x, w, inv_rms, a, y, dw); });
  const MixVectors p{w, w, w, w};
  add("residual scaling: forward", 8 + narrow, [&] { backend.residual->mix_forward(x, a, p, y); });
  add("residual scaling: backward", 12 + 2 * narrow, [&] {
    backend.residual->mix_backward(x, a, p, y, da, {d1, d2, d3, d4});
  });
  return rows;
}

}  // namespace zaya
