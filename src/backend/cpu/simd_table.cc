// SPDX-License-Identifier: Apache-2.0
//
// Picks the kernels compiled for an instruction set. The bf16 instruction matters to oneDNN only.
#include "backend/cpu/attention_simd.h"
#include "backend/cpu/cca_mix_simd.h"
#include "backend/cpu/convolve_simd.h"
#include "backend/cpu/loss_simd.h"
#include "backend/cpu/move_simd.h"
#include "backend/cpu/norm_simd.h"
#include "backend/cpu/optim_simd.h"
#include "backend/cpu/product_simd.h"
#include "backend/cpu/residual_simd.h"
#include "backend/cpu/router_simd.h"
#include "backend/cpu/swiglu_simd.h"

namespace zaya {

#define ZAYA_DECLARE(set)                    \
  namespace set {                            \
  extern const AttentionSimd kAttentionSimd; \
  extern const CcaMixSimd kCcaMixSimd;       \
  extern const ConvolveSimd kConvolveSimd;   \
  extern const LossSimd kLossSimd;           \
  extern const MoveSimd kMoveSimd;           \
  extern const NormSimd kNormSimd;           \
  extern const OptimSimd kOptimSimd;         \
  extern const ProductSimd kProductSimd;     \
  extern const ResidualSimd kResidualSimd;   \
  extern const RouterSimd kRouterSimd;       \
  extern const SwigluSimd kSwigluSimd;       \
  }
ZAYA_DECLARE(portable)
ZAYA_DECLARE(avx2)
ZAYA_DECLARE(avx512)
#undef ZAYA_DECLARE

namespace {

template <class Table>
const Table& pick(InstructionSet set, const Table& of_portable, const Table& of_avx2,
                  const Table& of_avx512) {
  switch (set) {
    case InstructionSet::portable: return of_portable;
    case InstructionSet::avx2: return of_avx2;
    case InstructionSet::avx512:
    case InstructionSet::avx512_bf16: return of_avx512;
  }
  return of_portable;
}

}  // namespace

const AttentionSimd& attention_simd(InstructionSet set) {
  return pick(set, portable::kAttentionSimd, avx2::kAttentionSimd, avx512::kAttentionSimd);
}
const ConvolveSimd& convolve_simd(InstructionSet set) {
  return pick(set, portable::kConvolveSimd, avx2::kConvolveSimd, avx512::kConvolveSimd);
}
const LossSimd& loss_simd(InstructionSet set) {
  return pick(set, portable::kLossSimd, avx2::kLossSimd, avx512::kLossSimd);
}
const ProductSimd& product_simd(InstructionSet set) {
  return pick(set, portable::kProductSimd, avx2::kProductSimd, avx512::kProductSimd);
}
const SwigluSimd& swiglu_simd(InstructionSet set) {
  return pick(set, portable::kSwigluSimd, avx2::kSwigluSimd, avx512::kSwigluSimd);
}
const CcaMixSimd& cca_mix_simd(InstructionSet set) {
  return pick(set, portable::kCcaMixSimd, avx2::kCcaMixSimd, avx512::kCcaMixSimd);
}
const MoveSimd& move_simd(InstructionSet set) {
  return pick(set, portable::kMoveSimd, avx2::kMoveSimd, avx512::kMoveSimd);
}
const NormSimd& norm_simd(InstructionSet set) {
  return pick(set, portable::kNormSimd, avx2::kNormSimd, avx512::kNormSimd);
}
const OptimSimd& optim_simd(InstructionSet set) {
  return pick(set, portable::kOptimSimd, avx2::kOptimSimd, avx512::kOptimSimd);
}
const ResidualSimd& residual_simd(InstructionSet set) {
  return pick(set, portable::kResidualSimd, avx2::kResidualSimd, avx512::kResidualSimd);
}
const RouterSimd& router_simd(InstructionSet set) {
  return pick(set, portable::kRouterSimd, avx2::kRouterSimd, avx512::kRouterSimd);
}

}  // namespace zaya
