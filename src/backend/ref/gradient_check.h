// SPDX-License-Identifier: Apache-2.0
//
// Checks a forward and backward pair of the reference backend: backward in f64 against complex-step
// derivatives of forward in c128, and both against themselves in f32 and bf16.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/testing.h"

namespace zaya::ref {

// What the bodies of a check see. Tensors are addressed by the numbers that declaring them gave.
struct GradientRun {
  const Backend& backend;
  TestArena& arena;
  std::vector<Tensor> in, out;
  std::vector<Tensor> dout;   // of outputs
  std::vector<Tensor> din;    // of inputs and parameters; no tensor for constants
  std::vector<Tensor> saved;  // from forward to backward; the body's own business

  Tensor take_stream(Shape shape) { return arena.take(backend.stream(), shape); }
  Tensor take_compute(Shape shape) { return arena.take(backend.compute(), shape); }
};

class GradientCheck {
 public:
  enum class Type { stream, compute };
  using Body = std::function<void(GradientRun&)>;

  // Gradient overwritten; of the input's type.
  int input(std::string name, Type type, Shape shape, double scale = 1, double mean = 0);
  // Gradient added to; of the stream type.
  int parameter(std::string name, Type type, Shape shape, double scale = 1, double mean = 0);
  // No gradient.
  int constant(std::string name, Type type, Shape shape, double scale = 1, double mean = 0);
  // Its gradient is random.
  int output(std::string name, Type type, Shape shape);
  // Its gradient is `gradient` everywhere.
  int output(std::string name, Type type, Shape shape, double gradient);

  // `forward` fills out (and saved), `backward` fills din. Largest deviations allowed: 1e-10 of the
  // complex step, 1e-5 in f32, `bf16_tolerance` in bf16 (relative to the norm of a gradient).
  void run(const Body& forward, const Body& backward, double bf16_tolerance = 0.03) const;

 private:
  enum class Role { input, parameter, constant };
  struct Input {
    std::string name;
    Type type;
    Shape shape;
    Role role;
    double scale, mean;
  };
  struct Output {
    std::string name;
    Type type;
    Shape shape;
    bool is_random;
    double gradient;
  };

  int add(Input input);
  GradientRun prepare(const Backend& backend, TestArena& arena) const;
  void check_gradient_rules(GradientRun& exact, const Body& forward, const Body& backward) const;
  void check_complex_steps(const GradientRun& exact, const Body& forward) const;
  void check_numerics(const GradientRun& exact, Numerics numerics, double tolerance,
                      const Body& forward, const Body& backward) const;

  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
};

}  // namespace zaya::ref
