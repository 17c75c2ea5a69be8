// SPDX-License-Identifier: Apache-2.0
//
// Bodies of means, norms and rotation of queries and keys for tokens [begin, end).
#pragma once

#include <cstdint>

#include "backend/cpu/rows.h"

namespace zaya {

struct QkMixRows {
  Index query_heads = 0, key_heads = 0, channels = 0;
  ConstRows z, qk0;
  const float* temp = nullptr;  // [key_heads]
  const std::int32_t* positions = nullptr;
  const float* rotary = nullptr;  // [positions, 2, half]
  Index half = 0;
  float eps = 0;
};

// q, k and their gradients have the element type of z and no gaps; norm [T, query + key heads].
struct QkMixForward {
  QkMixRows in;
  void* q = nullptr;
  void* k = nullptr;
  float* norm = nullptr;
};

struct QkMixBackward {
  QkMixRows in;
  const float* norm = nullptr;
  const void* dq = nullptr;
  const void* dk = nullptr;
  Rows dz, dqk0;
};

struct CcaMixSimd {
  // scratch [2, channels].
  void (*forward)(const QkMixForward& args, Index begin, Index end, float* scratch);
  // scratch [4, channels]; dtemp [key_heads] is overwritten with the part of these tokens.
  void (*backward)(const QkMixBackward& args, Index begin, Index end, float* scratch,
                   double* dtemp);
};

const CcaMixSimd& cca_mix_simd(InstructionSet set);

}  // namespace zaya
