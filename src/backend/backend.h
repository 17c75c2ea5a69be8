// SPDX-License-Identifier: Apache-2.0
//
// A backend is one implementation of every kernel family. Kernels take tensors, never layers; they
// throw nothing and write nothing but their results.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/attention.h"
#include "backend/cca.h"
#include "backend/experts.h"
#include "backend/gemm.h"
#include "backend/loss.h"
#include "backend/move.h"
#include "backend/norm.h"
#include "backend/numerics.h"
#include "backend/optim.h"
#include "backend/residual.h"
#include "backend/router.h"

namespace zaya {

class ThreadPool;

struct Backend {
  std::string name;  // "ref", "cpu avx512_bf16", "count"
  Numerics numerics = Numerics::f32;
  std::unique_ptr<GemmKernels> gemm;
  std::unique_ptr<NormKernels> norm;
  std::unique_ptr<ResidualKernels> residual;
  std::unique_ptr<CcaKernels> cca;
  std::unique_ptr<AttentionKernels> attention;
  std::unique_ptr<RouterKernels> router;
  std::unique_ptr<ExpertKernels> experts;
  std::unique_ptr<LossKernels> loss;
  std::unique_ptr<OptimKernels> optim;
  std::unique_ptr<MoveKernels> move;

  DType stream() const { return stream_dtype(numerics); }
  DType compute() const { return compute_dtype(numerics); }
};

// The definition of every kernel: plain loops, one thread, any numerics.
Backend make_ref_backend(Numerics numerics);

// Instruction sets of the CPU backend, least first.
enum class InstructionSet { portable, avx2, avx512, avx512_bf16 };
std::string_view name_of(InstructionSet set);
// What this processor offers at most.
InstructionSet best_instruction_set();
// "auto" (the best one) or a name; Error{usage} for an unknown name or one that this processor
// lacks.
InstructionSet parse_instruction_set(std::string_view name);

// oneDNN products and SIMD kernels on the pool, which must outlive the backend. f32 or bf16. The
// library can be limited to an instruction set only once per process: a second, different set in
// one process is Error{usage}.
Backend make_cpu_backend(Numerics numerics, ThreadPool& pool, InstructionSet set);

// What a count backend has seen: model arithmetic, with 2 FLOPs per multiply-add.
struct WorkCount {
  double product_flops = 0;  // matrix products, attention included
  double bytes = 0;          // least bytes that element-wise kernels must read and write
};
// Computes nothing, adds up work; made for tensors of dry arenas. `count` must outlive it.
Backend make_count_backend(Numerics numerics, WorkCount& count);

}  // namespace zaya
