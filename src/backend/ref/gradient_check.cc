// SPDX-License-Identifier: Apache-2.0
#include "backend/ref/gradient_check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace zaya::ref {

namespace {

constexpr double kStep = 1e-30;
constexpr Index kElementsPerInput = 12;

double largest(const ConstTensor& x) {
  double most = 0;
  for (const double value : values(x)) most = std::max(most, std::abs(value));
  return most;
}

// Sum over outputs of gradient times imaginary part, per step.
double derivative(const GradientRun& run) {
  double sum = 0;
  for (std::size_t k = 0; k < run.out.size(); ++k) {
    for (Index i = 0; i < run.out[k].count(); ++i) {
      sum += element(run.dout[k], i).real() * element(run.out[k], i).imag() / kStep;
    }
  }
  return sum;
}

}  // namespace

int GradientCheck::add(Input input) {
  inputs_.push_back(std::move(input));
  return static_cast<int>(inputs_.size()) - 1;
}

int GradientCheck::input(std::string name, Type type, Shape shape, double scale, double mean) {
  return add({std::move(name), type, shape, Role::input, scale, mean});
}

int GradientCheck::parameter(std::string name, Type type, Shape shape, double scale, double mean) {
  return add({std::move(name), type, shape, Role::parameter, scale, mean});
}

int GradientCheck::constant(std::string name, Type type, Shape shape, double scale, double mean) {
  return add({std::move(name), type, shape, Role::constant, scale, mean});
}

int GradientCheck::output(std::string name, Type type, Shape shape) {
  outputs_.push_back({std::move(name), type, shape, true, 0});
  return static_cast<int>(outputs_.size()) - 1;
}

int GradientCheck::output(std::string name, Type type, Shape shape, double gradient) {
  outputs_.push_back({std::move(name), type, shape, false, gradient});
  return static_cast<int>(outputs_.size()) - 1;
}

GradientRun GradientCheck::prepare(const Backend& backend, TestArena& arena) const {
  GradientRun run{backend, arena, {}, {}, {}, {}, {}};
  const auto dtype = [&](Type type) {
    return type == Type::stream ? backend.stream() : backend.compute();
  };
  for (const Input& i : inputs_) {
    run.in.push_back(random_tensor(arena, dtype(i.type), i.shape, i.name, i.scale, i.mean));
    if (i.role == Role::input) {
      // Whatever was there must not matter.
      run.din.push_back(
          filled_tensor(arena, dtype(i.type), i.shape, std::numeric_limits<double>::quiet_NaN()));
    } else if (i.role == Role::parameter) {
      run.din.push_back(filled_tensor(arena, backend.stream(), i.shape, 0));
    } else {
      run.din.push_back({});
    }
  }
  for (const Output& o : outputs_) {
    run.out.push_back(arena.take(dtype(o.type), o.shape));
    run.dout.push_back(arena.take(dtype(o.type), o.shape));
    if (o.is_random) {
      randomize(run.dout.back(), "gradient of " + o.name);
    } else {
      fill(run.dout.back(), o.gradient);
    }
  }
  return run;
}

void GradientCheck::run(const Body& forward, const Body& backward, double bf16_tolerance) const {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f64);
  GradientRun exact = prepare(backend, arena);
  check_gradient_rules(exact, forward, backward);
  check_complex_steps(exact, forward);
  check_numerics(exact, Numerics::f32, 1e-5, forward, backward);
  check_numerics(exact, Numerics::bf16, bf16_tolerance, forward, backward);
}

// Backward twice doubles the gradients of parameters only.
void GradientCheck::check_gradient_rules(GradientRun& exact, const Body& forward,
                                         const Body& backward) const {
  forward(exact);
  backward(exact);
  std::vector<std::vector<double>> once;
  for (const Tensor& d : exact.din) once.push_back(d.is_none() ? std::vector<double>{} : values(d));
  backward(exact);
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    if (inputs_[k].role == Role::constant) continue;
    INFO(inputs_[k].name);
    const double factor = inputs_[k].role == Role::parameter ? 2 : 1;
    double deviation = 0;
    for (Index i = 0; i < exact.din[k].count(); ++i) {
      const double difference = element(exact.din[k], i).real() - factor * once[k][i];
      deviation = std::max(deviation, std::isnan(difference) ? 1e300 : std::abs(difference));
      set_element(exact.din[k], i, once[k][i]);
    }
    CHECK(deviation <= 1e-13 * largest(exact.din[k]));
  }
}

void GradientCheck::check_complex_steps(const GradientRun& exact, const Body& forward) const {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::c128);
  GradientRun run = prepare(backend, arena);
  const Index mark = arena.arena().mark();
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    if (inputs_[k].role == Role::constant) continue;
    INFO(inputs_[k].name);
    const Index count = run.in[k].count(), tried = std::min(count, kElementsPerInput);
    const Permutation order(7, inputs_[k].name, std::max<Index>(count, 1));
    const double scale = largest(exact.din[k]);
    CHECK(scale > 0);
    for (Index n = 0; n < tried; ++n) {
      const Index i = order(n);
      const std::complex<double> value = element(run.in[k], i);
      set_element(run.in[k], i, value + std::complex<double>(0, kStep));
      run.saved.clear();
      forward(run);
      arena.arena().rewind(mark);
      set_element(run.in[k], i, value);
      CAPTURE(i);
      const double wanted = derivative(run), found = element(exact.din[k], i).real();
      CHECK(std::abs(found - wanted) <= 1e-10 * scale);
    }
  }
}

void GradientCheck::check_numerics(const GradientRun& exact, Numerics numerics, double tolerance,
                                   const Body& forward, const Body& backward) const {
  TestArena arena;
  const Backend backend = make_ref_backend(numerics);
  GradientRun run = prepare(backend, arena);
  forward(run);
  backward(run);
  INFO(std::string(name_of(numerics)));
  for (std::size_t k = 0; k < outputs_.size(); ++k) {
    INFO(outputs_[k].name);
    CHECK(relative_error(run.out[k], exact.out[k]) < tolerance);
  }
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    if (inputs_[k].role == Role::constant) continue;
    INFO(inputs_[k].name);
    CHECK(relative_error(run.din[k], exact.din[k]) < tolerance);
  }
}

}  // namespace zaya::ref
