// SPDX-License-Identifier: Apache-2.0
//
// Names of instruction sets and what this processor offers.
#include <array>
#include <string>

#include "backend/backend.h"
#include "base/check.h"
#include "base/error.h"

namespace zaya {

namespace {

constexpr std::array kSets = {InstructionSet::portable, InstructionSet::avx2,
                              InstructionSet::avx512, InstructionSet::avx512_bf16};

}  // namespace

std::string_view name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::portable: return "portable";
    case InstructionSet::avx2: return "avx2";
    case InstructionSet::avx512: return "avx512";
    case InstructionSet::avx512_bf16: return "avx512_bf16";
  }
  check_failed(__FILE__, __LINE__, "instruction set", "unknown value");
}

InstructionSet best_instruction_set() {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) return InstructionSet::avx512_bf16;
  if (avx512) return InstructionSet::avx512;
  return avx2 ? InstructionSet::avx2 : InstructionSet::portable;
}

InstructionSet parse_instruction_set(std::string_view name) {
  const InstructionSet best = best_instruction_set();
  if (name == "auto") return best;
  for (const InstructionSet set : kSets) {
    if (name_of(set) != name) continue;
    if (set <= best) return set;
    throw Error{ErrorKind::usage, "instruction set " + std::string(name) +
                                      ": this processor offers " + std::string(name_of(best)) +
                                      " at most; use auto"};
  }
  throw Error{ErrorKind::usage, "unknown instruction set " + std::string(name) +
                                    "; use auto, portable, avx2, avx512 or avx512_bf16"};
}

}  // namespace zaya
