// SPDX-License-Identifier: Apache-2.0
//
// What the kernel families of one CPU backend share, and how each family is made.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/workspace.h"
#include "base/thread_pool.h"

namespace zaya {

struct CpuContext {
  CpuContext(Numerics backend_numerics, ThreadPool& backend_pool, InstructionSet backend_set);

  Numerics numerics;
  ThreadPool& pool;
  InstructionSet set;
  Products products;
  // Memory of a kernel's tasks, one per worker; and memory that the tasks of one call share.
  std::vector<Workspace> worker;
  Workspace shared;

  DType stream() const { return stream_dtype(numerics); }
  DType compute() const { return compute_dtype(numerics); }
};

// Shared by the families of one backend, which may outlive each other.
using CpuContextPtr = std::shared_ptr<CpuContext>;

std::unique_ptr<GemmKernels> make_cpu_gemm(CpuContextPtr context);
std::unique_ptr<NormKernels> make_cpu_norm(CpuContextPtr context);
std::unique_ptr<ResidualKernels> make_cpu_residual(CpuContextPtr context);
std::unique_ptr<CcaKernels> make_cpu_cca(CpuContextPtr context);
std::unique_ptr<AttentionKernels> make_cpu_attention(CpuContextPtr context);
std::unique_ptr<RouterKernels> make_cpu_router(CpuContextPtr context);
std::unique_ptr<ExpertKernels> make_cpu_experts(CpuContextPtr context);
std::unique_ptr<LossKernels> make_cpu_loss(CpuContextPtr context);
std::unique_ptr<OptimKernels> make_cpu_optim(CpuContextPtr context);
std::unique_ptr<MoveKernels> make_cpu_move(CpuContextPtr context);

}  // namespace zaya
