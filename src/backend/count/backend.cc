// SPDX-License-Identifier: Apache-2.0
//
// Puts the families of the count backend together.
#include "backend/backend.h"

#include "backend/count/families.h"

namespace zaya {

Backend make_count_backend(Numerics numerics, WorkCount& count) {
  Backend backend;
  backend.name = "count";
  backend.numerics = numerics;
  backend.gemm = count::make_gemm(count);
  backend.norm = count::make_norm(count);
  backend.residual = count::make_residual(count);
  backend.cca = count::make_cca(count);
  backend.attention = count::make_attention(count);
  backend.router = count::make_router(count);
  backend.experts = count::make_experts(count);
  backend.loss = count::make_loss(count);
  backend.optim = count::make_optim(count);
  backend.move = count::make_move(count);
  return backend;
}

}  // namespace zaya
