// SPDX-License-Identifier: Apache-2.0
//
// How tests of CPU kernels compare them with the reference backend, on the instruction set that the
// test program was told to use.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/testing.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "test_main.h"

namespace zaya {

// Nothing, with a message, when this processor lacks the set.
inline std::optional<InstructionSet> tested_instruction_set() {
  try {
    return parse_instruction_set(test_instruction_set());
  } catch (const Error& error) {
    MESSAGE("skipped: " << error.message());
    return std::nullopt;
  }
}

// Makes inputs, runs kernels of the backend, returns results. Inputs must depend on names only.
using KernelRun = std::function<std::vector<Tensor>(const Backend& backend, TestArena& arena)>;

inline void check_equal_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(equal_bits(a[i], b[i]));
  }
}

// Whether the same elements are NaN.
inline bool same_nans(const ConstTensor& a, const ConstTensor& b) {
  for (Index i = 0; i < a.count(); ++i) {
    if (std::isnan(element(a, i).real()) != std::isnan(element(b, i).real())) return false;
  }
  return true;
}

// Calls check(cpu results, ref results) after having seen that 1, 2, 3 and 7 threads give the CPU
// backend the same bits.
inline void run_on_both(Numerics numerics, const KernelRun& run,
                        const std::function<void(const Tensor&, const Tensor&)>& check) {
  const std::optional<InstructionSet> set = tested_instruction_set();
  if (!set) return;
  CAPTURE(std::string(name_of(numerics)));
  std::array<TestArena, 5> arenas;
  const std::vector<Tensor> expected = run(make_ref_backend(numerics), arenas[0]);
  std::vector<Tensor> first;
  constexpr std::array kThreads = {1, 2, 3, 7};
  for (std::size_t i = 0; i < kThreads.size(); ++i) {
    ThreadPool pool(kThreads[i]);
    const std::vector<Tensor> results = run(make_cpu_backend(numerics, pool, *set), arenas[i + 1]);
    if (i == 0) first = results;
    CAPTURE(kThreads[i]);
    check_equal_bits(results, first);
  }
  REQUIRE(first.size() == expected.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    CAPTURE(i);
    check(first[i], expected[i]);
  }
}

// Relative errors (Euclidean norms) that results may have. f32: sums of up to some thousand terms
// in another order, 2^-24 each. bf16: a few roundings of 2^-9 at other places than in the
// reference.
inline constexpr double kTolerance = 2e-6, kTolerance16 = 1e-2;

inline void compare(Numerics numerics, const KernelRun& run) {
  const double tolerance = numerics == Numerics::bf16 ? kTolerance16 : kTolerance;
  run_on_both(numerics, run, [&](const Tensor& result, const Tensor& expected) {
    CHECK(relative_error(result, expected) <= tolerance);
  });
}

inline void compare_nans(Numerics numerics, const KernelRun& run) {
  run_on_both(numerics, run, [&](const Tensor& result, const Tensor& expected) {
    CHECK(same_nans(result, expected));
  });
}

inline constexpr std::array kRunNumerics = {Numerics::f32, Numerics::bf16};

}  // namespace zaya
