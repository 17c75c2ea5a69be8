// SPDX-License-Identifier: Apache-2.0
//
// Puts the families of the CPU backend together.
#include "backend/backend.h"

#include <string>

#include "backend/cpu/context.h"
#include "base/check.h"

namespace zaya {

CpuContext::CpuContext(Numerics backend_numerics, ThreadPool& backend_pool,
                       InstructionSet backend_set)
    : numerics(backend_numerics),
      pool(backend_pool),
      set(backend_set),
      products(backend_set, backend_pool.num_threads()),
      worker(backend_pool.num_threads()) {
  ZAYA_CHECK(numerics == Numerics::f32 || numerics == Numerics::bf16,
             "the CPU backend computes in f32 or bf16");
}

Backend make_cpu_backend(Numerics numerics, ThreadPool& pool, InstructionSet set) {
  const auto context = std::make_shared<CpuContext>(numerics, pool, set);
  Backend backend;
  backend.name = "cpu " + std::string(name_of(set));
  backend.numerics = numerics;
  backend.gemm = make_cpu_gemm(context);
  backend.norm = make_cpu_norm(context);
  backend.residual = make_cpu_residual(context);
  backend.cca = make_cpu_cca(context);
  backend.attention = make_cpu_attention(context);
  backend.router = make_cpu_router(context);
  backend.experts = make_cpu_experts(context);
  backend.loss = make_cpu_loss(context);
  backend.optim = make_cpu_optim(context);
  backend.move = make_cpu_move(context);
  return backend;
}

}  // namespace zaya
