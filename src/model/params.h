// SPDX-License-Identifier: Apache-2.0
//
// Parameters: declared by layers, allocated and bound afterwards. One declaration serves the memory
// plan, the initialiser, the optimizer group, gradients, checkpoints and export. Names are those of
// the published checkpoints.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "backend/backend.h"
#include "base/thread_pool.h"
#include "tensor/arena.h"

namespace zaya {

// Start value of every element.
struct Init {
  enum class Kind { normal, constant } kind = Kind::constant;
  double value = 0;  // standard deviation, or the constant
};
inline Init init_normal(double deviation) { return {Init::Kind::normal, deviation}; }
inline Init init_constant(double value) { return {Init::Kind::constant, value}; }

// Which optimizer moves the parameter. `muon` takes a matrix, or a stack of matrices (rank 3) that
// are orthogonalised one by one. `none`: a buffer that something else updates.
enum class OptimizerRole { muon, adamw, none };

// What kernels read: values in the stream type, or a rounded copy in the compute type.
enum class WeightType { stream, compute };

struct ParamRule {
  OptimizerRole role = OptimizerRole::adamw;
  bool decays = false;
  WeightType weight_type = WeightType::stream;
};
inline constexpr ParamRule kVector{OptimizerRole::adamw, false, WeightType::stream};
inline constexpr ParamRule kMatrix{OptimizerRole::muon, true, WeightType::compute};
inline constexpr ParamRule kStreamMatrix{OptimizerRole::muon, true, WeightType::stream};
inline constexpr ParamRule kTable{OptimizerRole::adamw, true, WeightType::compute};
inline constexpr ParamRule kBuffer{OptimizerRole::none, false, WeightType::stream};

struct Param {
  std::string name;
  Shape shape;
  Init init;
  ParamRule rule;
  Index offset = 0;  // first element in flat buffers; a multiple of 16

  Tensor master;  // stream type: what the optimizer moves. No tensor when bound for inference only.
  Tensor weight;  // what kernels read; the same memory as master when the types agree
  Index count() const { return shape.count(); }
};

// Elements [begin, begin + out.size()) of what ParamSet::initialize(seed) gives the parameter.
void initial_values(const Param& param, std::uint64_t seed, Index begin, std::span<float> out);

// All parameters of a model, in the order of declaration. References stay valid.
class ParamSet {
 public:
  Param& declare(std::string name, Shape shape, Init init, ParamRule rule);

  std::deque<Param>& all() { return params_; }
  const std::deque<Param>& all() const { return params_; }
  Param* find(std::string_view name);
  // Elements of a flat buffer that holds every parameter, and how many are parameters.
  Index flat_count() const { return flat_count_; }
  Index num_parameters() const;

  // Takes master values (and compute copies where types differ) from `run`, not initialised.
  void bind_for_training(Arena& run, const Backend& backend);
  // Takes only what kernels read.
  void bind_for_inference(Arena& run, const Backend& backend);

  // Fills masters from (seed, name, element), on the pool if there is one; then call
  // refresh_copies().
  void initialize(std::uint64_t seed, ThreadPool* pool = nullptr);
  // Rounds masters into the compute copies.
  void refresh_copies(const Backend& backend);

 private:
  std::deque<Param> params_;
  std::unordered_map<std::string_view, Param*> by_name_;  // keys are the names in params_
  Index flat_count_ = 0;
};

// Declares under a prefix: ParamScope(set, "model.layers.3").scope("mlp") and so on.
class ParamScope {
 public:
  explicit ParamScope(ParamSet& set, std::string prefix = "") : set_(set), prefix_(prefix) {}
  ParamScope scope(std::string_view name) const { return ParamScope(set_, joined(name)); }
  Param& declare(std::string_view name, Shape shape, Init init, ParamRule rule) const {
    return set_.declare(joined(name), shape, init, rule);
  }
  // Declares, or returns null if the model has no such parameter.
  Param* declare_if(bool is_there, std::string_view name, Shape shape, Init init,
                    ParamRule rule) const {
    return is_there ? &declare(name, shape, init, rule) : nullptr;
  }

 private:
  std::string joined(std::string_view name) const {
    return prefix_.empty() ? std::string(name) : prefix_ + "." + std::string(name);
  }

  ParamSet& set_;
  std::string prefix_;
};

// Gradients of all parameters in one flat buffer of the stream type.
class Gradients {
 public:
  Gradients() = default;
  // Over an existing flat buffer [flat_count()].
  explicit Gradients(Tensor flat) : flat_(flat) {}
  Gradients(Arena& arena, const ParamSet& params, DType stream)
      : flat_(arena.take(stream, {params.flat_count()})) {}
  Tensor flat() const { return flat_; }
  Tensor of(const Param& param) const {
    return flat_.slice(param.offset, param.offset + param.count()).reshaped(param.shape);
  }
  // No tensor for an absent parameter.
  Tensor of(const Param* param) const { return param == nullptr ? Tensor{} : of(*param); }

 private:
  Tensor flat_;
};

// The weight of an optional parameter, or no tensor.
inline ConstTensor weight_of(const Param* param) {
  return param == nullptr ? ConstTensor{} : ConstTensor(param->weight);
}

}  // namespace zaya
