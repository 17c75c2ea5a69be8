// SPDX-License-Identifier: Apache-2.0
//
// Puts the families of the reference backend together.
#include "backend/backend.h"

#include "backend/ref/families.h"

namespace zaya {

namespace {

template <class S, class T>
Backend make(Numerics numerics) {
  Backend backend;
  backend.name = "ref";
  backend.numerics = numerics;
  backend.gemm = ref::make_gemm<S, T>();
  backend.norm = ref::make_norm<S, T>();
  backend.residual = ref::make_residual<S, T>();
  backend.cca = ref::make_cca<S, T>();
  backend.attention = ref::make_attention<S, T>();
  backend.router = ref::make_router<S, T>();
  backend.experts = ref::make_experts<S, T>();
  backend.loss = ref::make_loss<S, T>();
  backend.optim = ref::make_optim<S, T>();
  backend.move = ref::make_move<S, T>();
  return backend;
}

}  // namespace

Backend make_ref_backend(Numerics numerics) {
  switch (numerics) {
    case Numerics::f32: return make<float, float>(numerics);
    case Numerics::bf16: return make<float, bf16>(numerics);
    case Numerics::f64: return make<double, double>(numerics);
    case Numerics::c128: return make<std::complex<double>, std::complex<double>>(numerics);
  }
  return {};
}

}  // namespace zaya
