// SPDX-License-Identifier: Apache-2.0
//
// The only file that knows oneDNN. Primitives take their sizes at run time, so there is one per
// kind of product and none is made after construction. f32 goes through the library's sgemm, which
// needs no primitive. Its implementation packs both operands, which suits tiles, and does not split
// the sum over k between threads as long as it runs on one.
#include "backend/cpu/onednn.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <array>
#include <string>

#include "backend/cpu/product_simd.h"
#include "base/check.h"
#include "base/error.h"

// Of libgomp, on which oneDNN runs; omp.h comes with one compiler only.
extern "C" void omp_set_num_threads(int num_threads);

namespace zaya {

namespace {

// Depth of the pieces in which products of widened bf16 operands are summed.
constexpr Index kWidenedDepth = 1024;

void check(dnnl_status_t status, const char* what) {
  ZAYA_CHECK(status == dnnl_success,
             std::string("oneDNN ") + what + ": status " + std::to_string(int{status}));
}

// Every thread that calls the library must tell it to stay on that thread.
void stay_on_this_thread() {
  thread_local bool is_told = false;
  if (is_told) return;
  omp_set_num_threads(1);
  is_told = true;
}

dnnl_cpu_isa_t isa_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::portable: return dnnl_cpu_isa_sse41;
    case InstructionSet::avx2: return dnnl_cpu_isa_avx2;
    case InstructionSet::avx512: return dnnl_cpu_isa_avx512_core;
    case InstructionSet::avx512_bf16: return dnnl_cpu_isa_avx512_core_bf16;
  }
  return dnnl_cpu_isa_sse41;
}

void limit_library(InstructionSet set) {
  if (dnnl_set_max_cpu_isa(isa_of(set)) == dnnl_success) return;
  if (dnnl_get_effective_cpu_isa() == isa_of(set)) return;
  throw Error{ErrorKind::usage, "instruction set " + std::string(name_of(set)) +
                                    ": this process already uses oneDNN with another one; use one "
                                    "instruction set per process"};
}

dnnl_data_type_t type_of(DType dtype) { return dtype == DType::bf16 ? dnnl_bf16 : dnnl_f32; }

dnnl_memory_desc_t matrix(Index rows, Index columns, Index ld, bool is_transposed, DType dtype) {
  const dnnl_dims_t dims = {rows, columns};
  const dnnl_dims_t plain = {ld, 1}, turned = {1, ld};
  dnnl_memory_desc_t md;
  check(dnnl_memory_desc_init_by_strides(&md, 2, dims, type_of(dtype),
                                         is_transposed ? turned : plain),
        "memory description");
  return md;
}

// A matrix argument of one call.
class Operand {
 public:
  Operand(dnnl_engine_t engine, const dnnl_memory_desc_t& md, const void* data) {
    check(dnnl_memory_create(&memory_, &md, engine, const_cast<void*>(data)), "memory");
  }
  ~Operand() { dnnl_memory_destroy(memory_); }
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;
  dnnl_memory_t get() const { return memory_; }

 private:
  dnnl_memory_t memory_ = nullptr;
};

// Kinds of bf16 products: transposes and what happens to the result.
enum class Output { f32, f32_added, bf16 };
constexpr int kNumKinds = 12;
int kind_index(bool ta, bool tb, Output output) {
  return (int{ta} * 2 + int{tb}) * 3 + static_cast<int>(output);
}

dnnl_primitive_t make_bf16_primitive(dnnl_engine_t engine, bool ta, bool tb, Output output) {
  constexpr Index kAny = DNNL_RUNTIME_DIM_VAL;
  const dnnl_memory_desc_t a = matrix(kAny, kAny, kAny, ta, DType::bf16);
  const dnnl_memory_desc_t b = matrix(kAny, kAny, kAny, tb, DType::bf16);
  const DType result = output == Output::bf16 ? DType::bf16 : DType::f32;
  const dnnl_memory_desc_t c = matrix(kAny, kAny, kAny, false, result);
  dnnl_matmul_desc_t description;
  check(dnnl_matmul_desc_init(&description, &a, &b, nullptr, &c), "product description");
  dnnl_primitive_attr_t attributes = nullptr;
  check(dnnl_primitive_attr_create(&attributes), "attributes");
  if (output == Output::f32_added) {
    dnnl_post_ops_t sum = nullptr;
    check(dnnl_post_ops_create(&sum), "post operations");
    check(dnnl_post_ops_append_sum(sum, 1.0f), "sum");
    check(dnnl_primitive_attr_set_post_ops(attributes, sum), "post operations");
    dnnl_post_ops_destroy(sum);
  }
  dnnl_primitive_desc_t primitive_description = nullptr;
  check(
      dnnl_primitive_desc_create(&primitive_description, &description, attributes, engine, nullptr),
      "product of bf16");
  dnnl_primitive_t primitive = nullptr;
  check(dnnl_primitive_create(&primitive, primitive_description), "product of bf16");
  dnnl_primitive_desc_destroy(primitive_description);
  dnnl_primitive_attr_destroy(attributes);
  return primitive;
}

}  // namespace

struct Products::State {
  bool has_bf16 = false;
  const ProductSimd* simd = nullptr;
  dnnl_engine_t engine = nullptr;
  std::vector<dnnl_stream_t> streams;  // one per worker
  std::vector<Workspace> widened;      // one per worker
  std::array<dnnl_primitive_t, kNumKinds> primitives{};

  void run_f32(const Product& p);
  void run_bf16(const Product& p, int worker);
  void run_widened(const Product& p, int worker);
};

Products::Products(InstructionSet set, int num_workers) : state_(std::make_unique<State>()) {
  limit_library(set);
  stay_on_this_thread();
  State& s = *state_;
  s.has_bf16 = set == InstructionSet::avx512_bf16;
  s.simd = &product_simd(set);
  s.widened.resize(num_workers);
  check(dnnl_engine_create(&s.engine, dnnl_cpu, 0), "engine");
  s.streams.resize(num_workers);
  for (dnnl_stream_t& stream : s.streams)
    check(dnnl_stream_create(&stream, s.engine, dnnl_stream_default_flags), "stream");
  if (!s.has_bf16) return;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const Output output : {Output::f32, Output::f32_added, Output::bf16})
        s.primitives[kind_index(ta, tb, output)] = make_bf16_primitive(s.engine, ta, tb, output);
    }
  }
}

Products::~Products() {
  for (const dnnl_primitive_t primitive : state_->primitives) {
    if (primitive != nullptr) dnnl_primitive_destroy(primitive);
  }
  for (const dnnl_stream_t stream : state_->streams) dnnl_stream_destroy(stream);
  dnnl_engine_destroy(state_->engine);
}

void Products::State::run_f32(const Product& p) {
  check(dnnl_sgemm(p.a_transposed ? 'T' : 'N', p.b_transposed ? 'T' : 'N', p.m, p.n, p.k, 1.0f,
                   static_cast<const float*>(p.a), p.lda, static_cast<const float*>(p.b), p.ldb,
                   p.adds ? 1.0f : 0.0f, static_cast<float*>(p.c), p.ldc),
        "product of f32");
}

void Products::State::run_bf16(const Product& p, int worker) {
  const Output output = p.result == DType::bf16 ? Output::bf16
                        : p.adds                ? Output::f32_added
                                                : Output::f32;
  const Operand a(engine, matrix(p.m, p.k, p.lda, p.a_transposed, DType::bf16), p.a);
  const Operand b(engine, matrix(p.k, p.n, p.ldb, p.b_transposed, DType::bf16), p.b);
  const Operand c(engine, matrix(p.m, p.n, p.ldc, false, p.result), p.c);
  const std::array<dnnl_exec_arg_t, 3> arguments = {
      {{DNNL_ARG_SRC, a.get()}, {DNNL_ARG_WEIGHTS, b.get()}, {DNNL_ARG_DST, c.get()}}};
  check(dnnl_primitive_execute(primitives[kind_index(p.a_transposed, p.b_transposed, output)],
                               streams[worker], int{arguments.size()}, arguments.data()),
        "product of bf16");
}

// bf16 operands on sets without the bf16 instruction.
void Products::State::run_widened(const Product& p, int worker) {
  const Index depth = std::min(p.k, kWidenedDepth);
  const bool rounds = p.result == DType::bf16;
  Workspace& memory = widened[worker];
  const Index floats = sizeof(float);
  memory.reset(Workspace::rounded(p.m * depth * floats) + Workspace::rounded(p.n * depth * floats) +
               (rounds ? Workspace::rounded(p.m * p.n * floats) : 0));
  float* a = memory.take<float>(p.m * depth);
  float* b = memory.take<float>(p.n * depth);
  float* c = rounds ? memory.take<float>(p.m * p.n) : static_cast<float*>(p.c);
  const Index ldc = rounds ? p.n : p.ldc;
  const auto* from_a = static_cast<const std::uint16_t*>(p.a);
  const auto* from_b = static_cast<const std::uint16_t*>(p.b);
  for (Index begin = 0; begin < p.k; begin += depth) {
    const Index k = std::min(depth, p.k - begin);
    Product piece{.m = p.m, .n = p.n, .k = k, .a = a, .a_transposed = p.a_transposed, .b = b};
    piece.b_transposed = p.b_transposed;
    piece.lda = p.a_transposed ? p.m : k;
    piece.ldb = p.b_transposed ? k : p.n;
    piece.c = c;
    piece.ldc = ldc;
    piece.adds = p.adds || begin > 0;
    simd->widen_rows(p.a_transposed ? from_a + begin * p.lda : from_a + begin, p.lda,
                     p.a_transposed ? k : p.m, piece.lda, a);
    simd->widen_rows(p.b_transposed ? from_b + begin : from_b + begin * p.ldb, p.ldb,
                     p.b_transposed ? p.n : k, piece.ldb, b);
    run_f32(piece);
  }
  if (rounds) simd->round_rows(c, p.m, p.n, static_cast<std::uint16_t*>(p.c), p.ldc);
}

void Products::run(const Product& product, int worker) noexcept {
  const Product& p = product;
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) {
    if (p.adds) return;
    const Index row_bytes = p.n * size_of(p.result);
    for (Index i = 0; i < p.m; ++i) {
      std::byte* row = static_cast<std::byte*>(p.c) + i * p.ldc * size_of(p.result);
      std::fill(row, row + row_bytes, std::byte{0});
    }
    return;
  }
  stay_on_this_thread();
  if (p.operands == DType::f32) {
    state_->run_f32(p);
  } else if (state_->has_bf16) {
    state_->run_bf16(p, worker);
  } else {
    state_->run_widened(p, worker);
  }
}

}  // namespace zaya
