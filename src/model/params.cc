// SPDX-License-Identifier: Apache-2.0
#include "model/params.h"

#include <algorithm>
#include <complex>
#include <utility>

#include "base/rng.h"

namespace zaya {

namespace {

constexpr Index kGroup = 16;  // elements; 64 bytes of f32

constexpr Index kFilledAtOnce = Index{1} << 16;

// Every numerics starts from the same f32 values.
float initial_value(const Param& param, const Rng& rng, Index i) {
  const double x = param.init.kind == Init::Kind::normal
                       ? rng.normal(static_cast<std::uint64_t>(i)) * param.init.value
                       : param.init.value;
  return static_cast<float>(x);
}

template <class S>
void fill(const Param& param, std::uint64_t seed, Index begin, Index end) {
  const auto out = param.master.as<S, 1>();
  const Rng rng(seed, param.name);
  for (Index i = begin; i < end; ++i) {
    out[i] = static_cast<S>(initial_value(param, rng, i));
  }
}

void fill_any(const Param& param, std::uint64_t seed, Index begin, Index end) {
  switch (param.master.dtype()) {
    case DType::f32: fill<float>(param, seed, begin, end); break;
    case DType::f64: fill<double>(param, seed, begin, end); break;
    case DType::c128: fill<std::complex<double>>(param, seed, begin, end); break;
    default: ZAYA_CHECK(false, param.name);
  }
}

}  // namespace

void initial_values(const Param& param, std::uint64_t seed, Index begin, std::span<float> out) {
  const Rng rng(seed, param.name);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = initial_value(param, rng, begin + static_cast<Index>(i));
  }
}

Param& ParamSet::declare(std::string name, Shape shape, Init init, ParamRule rule) {
  ZAYA_CHECK(find(name) == nullptr, name);
  Param& param = params_.emplace_back();
  param.name = std::move(name);
  param.shape = shape;
  param.init = init;
  param.rule = rule;
  param.offset = flat_count_;
  flat_count_ += (shape.count() + kGroup - 1) / kGroup * kGroup;
  by_name_[param.name] = &param;
  return param;
}

Param* ParamSet::find(std::string_view name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

Index ParamSet::num_parameters() const {
  Index count = 0;
  for (const Param& param : params_) {
    if (param.rule.role != OptimizerRole::none) count += param.count();
  }
  return count;
}

void ParamSet::bind_for_training(Arena& run, const Backend& backend) {
  Tensor masters;
  {
    const Arena::Scope scope(run, "weights");
    masters = run.take(backend.stream(), {flat_count_});
  }
  const Arena::Scope scope(run, "weight copies");
  for (Param& param : params_) {
    param.master = masters.slice(param.offset, param.offset + param.count()).reshaped(param.shape);
    const bool has_copy =
        param.rule.weight_type == WeightType::compute && backend.compute() != backend.stream();
    param.weight = has_copy ? run.take(backend.compute(), param.shape) : param.master;
  }
}

void ParamSet::bind_for_inference(Arena& run, const Backend& backend) {
  const Arena::Scope scope(run, "weights");
  for (Param& param : params_) {
    const bool is_compute = param.rule.weight_type == WeightType::compute;
    param.weight = run.take(is_compute ? backend.compute() : backend.stream(), param.shape);
    param.master = Tensor{};
  }
}

void ParamSet::initialize(std::uint64_t seed, ThreadPool* pool) {
  for (const Param& param : params_) {
    const Index count = param.count();
    if (pool == nullptr) {
      fill_any(param, seed, 0, count);
      continue;
    }
    pool->run((count + kFilledAtOnce - 1) / kFilledAtOnce, [&](Index task, int) {
      const Index begin = task * kFilledAtOnce;
      fill_any(param, seed, begin, std::min(begin + kFilledAtOnce, count));
    });
  }
}

void ParamSet::refresh_copies(const Backend& backend) {
  for (const Param& param : params_) {
    if (param.weight.data() != param.master.data()) {
      backend.move->copy(param.master, param.weight);
    }
  }
}

}  // namespace zaya
