// SPDX-License-Identifier: Apache-2.0
#include "optim/muon.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "backend/testing.h"

namespace zaya {

namespace {

// A dense matrix in double, for definitions that share no code with the kernels.
struct Matrix {
  Index rows = 0, columns = 0;
  std::vector<double> at;
  double& operator()(Index i, Index j) { return at[i * columns + j]; }
  double operator()(Index i, Index j) const { return at[i * columns + j]; }
};

Matrix matrix_of(const ConstTensor& x) { return {x.dim(0), x.dim(1), values(x)}; }

Matrix transposed(const Matrix& x) {
  Matrix y{x.columns, x.rows, std::vector<double>(x.at.size())};
  for (Index i = 0; i < x.rows; ++i) {
    for (Index j = 0; j < x.columns; ++j) y(j, i) = x(i, j);
  }
  return y;
}

Matrix product(const Matrix& x, const Matrix& y) {
  Matrix z{x.rows, y.columns, std::vector<double>(x.rows * y.columns)};
  for (Index i = 0; i < x.rows; ++i) {
    for (Index k = 0; k < x.columns; ++k) {
      for (Index j = 0; j < y.columns; ++j) z(i, j) += x(i, k) * y(k, j);
    }
  }
  return z;
}

// a X + b (X X^T) X + c (X X^T)^2 X by plain products, no transposition of tall matrices.
Matrix polynomial_step(const Matrix& x, const QuinticStep& step) {
  const Matrix cube = product(product(x, transposed(x)), x);
  const Matrix fifth = product(product(x, transposed(x)), cube);
  Matrix y = x;
  for (std::size_t i = 0; i < y.at.size(); ++i) {
    y.at[i] = step.a * x.at[i] + step.b * cube.at[i] + step.c * fifth.at[i];
  }
  return y;
}

Matrix plain_newton_schulz(Matrix x, const NewtonSchulz& iteration) {
  double squares = 0;
  for (const double value : x.at) squares += value * value;
  for (double& value : x.at) value /= iteration.margin * (std::sqrt(squares) + 1e-7);
  for (const QuinticStep& step : iteration.steps) x = polynomial_step(x, step);
  return x;
}

double difference(const Matrix& x, const Matrix& y) {
  double errors = 0, squares = 0;
  for (std::size_t i = 0; i < x.at.size(); ++i) {
    errors += (x.at[i] - y.at[i]) * (x.at[i] - y.at[i]);
    squares += y.at[i] * y.at[i];
  }
  return std::sqrt(errors / squares);
}

// Singular values by one-sided Jacobi rotations of the rows.
std::vector<double> singular_values(Matrix x) {
  if (x.rows > x.columns) x = transposed(x);
  const auto dot = [&](Index i, Index j) {
    double sum = 0;
    for (Index k = 0; k < x.columns; ++k) sum += x(i, k) * x(j, k);
    return sum;
  };
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (Index i = 0; i < x.rows; ++i) {
      for (Index j = i + 1; j < x.rows; ++j) {
        const double p = dot(i, j), angle = 0.5 * std::atan2(2 * p, dot(i, i) - dot(j, j));
        const double c = std::cos(angle), s = std::sin(angle);
        for (Index k = 0; k < x.columns; ++k) {
          const double u = x(i, k), v = x(j, k);
          x(i, k) = c * u + s * v;
          x(j, k) = c * v - s * u;
        }
      }
    }
  }
  std::vector<double> out;
  for (Index i = 0; i < x.rows; ++i) out.push_back(std::sqrt(dot(i, i)));
  std::sort(out.begin(), out.end());
  return out;
}

// Rows of a random matrix made orthonormal (Gram-Schmidt, twice for accuracy).
Matrix orthonormal_rows(Index rows, Index columns, std::string_view name) {
  const Rng rng(3, name);
  Matrix x{rows, columns, std::vector<double>(rows * columns)};
  for (std::size_t i = 0; i < x.at.size(); ++i) x.at[i] = rng.normal(i);
  for (Index i = 0; i < rows; ++i) {
    for (int pass = 0; pass < 2; ++pass) {
      for (Index j = 0; j < i; ++j) {
        double sum = 0;
        for (Index k = 0; k < columns; ++k) sum += x(i, k) * x(j, k);
        for (Index k = 0; k < columns; ++k) x(i, k) -= sum * x(j, k);
      }
    }
    double squares = 0;
    for (Index k = 0; k < columns; ++k) squares += x(i, k) * x(i, k);
    for (Index k = 0; k < columns; ++k) x(i, k) /= std::sqrt(squares);
  }
  return x;
}

// A matrix with these singular values.
Matrix with_singular_values(const std::vector<double>& s, Index columns) {
  const Index n = static_cast<Index>(s.size());
  Matrix left = orthonormal_rows(n, n, "left"), right = orthonormal_rows(n, columns, "right");
  for (Index i = 0; i < n; ++i) {
    for (Index k = 0; k < columns; ++k) right(i, k) *= s[i];
  }
  return product(left, right);
}

// Singular values after five steps on a matrix whose own are spread over [0.01, 1].
std::vector<double> spread_after(std::string_view set, const Backend& backend, DType dtype) {
  TestArena arena;
  std::vector<double> s;
  for (int i = 0; i < 24; ++i) s.push_back(std::pow(100.0, -i / 23.0));
  const Matrix start = with_singular_values(s, 40);
  Tensor x = arena.take(dtype, {24, 40}), spare = arena.take(dtype, {24, 40});
  for (Index i = 0; i < x.count(); ++i) set_element(x, i, start.at[i]);
  // The first step shall see these values, not their share of the norm.
  double squares = 0;
  for (const double value : s) squares += value * value;
  NewtonSchulz iteration = newton_schulz(set, 5);
  iteration.margin = iteration.margin / std::sqrt(squares);
  orthogonalize(backend, iteration, x, spare, arena.arena());
  return singular_values(matrix_of(x));
}

struct MuonFixture {
  explicit MuonFixture(Numerics numerics, const std::vector<Shape>& shapes,
                       const OptimizerConfig& config = {})
      : backend(make_ref_backend(numerics)) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      params.declare("p" + std::to_string(i), shapes[i], init_normal(0.02), kMatrix);
    }
    params.bind_for_training(arena.arena(), backend);
    params.initialize(1);
    params.refresh_copies(backend);
    gradients = Gradients(arena.arena(), params, backend.stream());
    muon = std::make_unique<Muon>(plan_params(params, config), config, backend, arena.arena());
  }
  void step(double learning_rate) { muon->step(backend, scratch, gradients, 1, learning_rate); }

  TestArena arena;
  Arena scratch{"scratch", Index{64} << 20};
  Backend backend;
  ParamSet params;
  Gradients gradients;
  std::unique_ptr<Muon> muon;
};

}  // namespace

TEST_CASE("Newton-Schulz agrees with plain products of the polynomial, for every coefficient set") {
  for (const char* set : {"keller", "polar_express", "quintic"}) {
    for (const auto& [numerics, bound] :
         {std::pair{Numerics::f64, 1e-12}, {Numerics::f32, 2e-5}, {Numerics::bf16, 0.05}}) {
      TestArena arena;
      const Backend backend = make_ref_backend(numerics);
      Tensor x = random_tensor(arena, backend.compute(), {12, 31}, "x", 1e-3);
      const Matrix expected = plain_newton_schulz(matrix_of(x), newton_schulz(set, 5));
      Tensor spare = arena.take(x.dtype(), x.shape());
      orthogonalize(backend, newton_schulz(set, 5), x, spare, arena.arena());
      CAPTURE(set);
      CHECK(difference(matrix_of(x), expected) < bound);
    }
  }
}

TEST_CASE("five steps bring singular values of [0.01, 1] into the known ranges") {
  for (const Numerics numerics : {Numerics::f64, Numerics::f32}) {
    const Backend backend = make_ref_backend(numerics);
    const auto keller = spread_after("keller", backend, backend.compute());
    CHECK(keller.front() > 0.67);
    CHECK(keller.back() < 1.135);
    const auto polar = spread_after("polar_express", backend, backend.compute());
    CHECK(polar.front() > 0.855);
    CHECK(polar.back() < 1.145);
  }
  // bf16 rounds the products to 2^-8; the smallest values carry that error through five steps.
  const Backend backend = make_ref_backend(Numerics::bf16);
  const auto keller = spread_after("keller", backend, DType::bf16);
  CHECK(keller.front() > 0.5);
  CHECK(keller.back() < 1.25);
}

TEST_CASE("more steps than a set has repeat its last one") {
  const NewtonSchulz seven = newton_schulz("polar_express", 7);
  CHECK(seven.steps.size() == 7);
  CHECK(seven.steps[6].a == seven.steps[4].a);
  CHECK(newton_schulz("keller", 3).steps.size() == 3);
}

TEST_CASE("a zero matrix stays zero and NaN comes through") {
  TestArena arena;
  const Backend backend = make_ref_backend(Numerics::f32);
  Tensor x = filled_tensor(arena, DType::f32, {4, 6}, 0), spare = arena.take(DType::f32, {4, 6});
  orthogonalize(backend, newton_schulz("keller", 5), x, spare, arena.arena());
  for (const double value : values(x)) CHECK(value == 0);
  set_element(x, 3, std::nan(""));
  orthogonalize(backend, newton_schulz("keller", 5), x, spare, arena.arena());
  CHECK(std::isnan(values(x)[0]));
}

TEST_CASE(
    "two steps follow the formula of momentum, Nesterov, scale and decay in both directions") {
  for (const bool nesterov : {true, false}) {
    for (const Shape shape : {Shape{6, 17}, Shape{17, 6}, Shape{9, 9}}) {
      OptimizerConfig config;
      config.muon_nesterov = nesterov;
      MuonFixture f(Numerics::f64, {shape}, config);
      const Param& param = f.params.all().front();
      Matrix w = matrix_of(param.master), m{shape[0], shape[1], std::vector<double>(w.at.size())};
      const double scale =
          0.01 * 0.2 * std::sqrt(static_cast<double>(std::max(shape[0], shape[1])));
      for (const char* name : {"first", "second"}) {
        const Tensor grad = f.gradients.of(param);
        randomize(grad, name);
        Matrix d = m;
        for (std::size_t i = 0; i < m.at.size(); ++i) {
          const double g = values(grad)[i];
          m.at[i] = 0.95 * m.at[i] + g;
          d.at[i] = nesterov ? g + 0.95 * m.at[i] : m.at[i];
        }
        d = plain_newton_schulz(d, newton_schulz("keller", 5));
        for (std::size_t i = 0; i < w.at.size(); ++i) {
          w.at[i] = w.at[i] * (1 - 0.01 * 0.1) - scale * d.at[i];
        }
        f.step(0.01);
      }
      CHECK(difference(matrix_of(param.master), w) < 1e-12);
    }
  }
}

TEST_CASE("the update's root mean square is about that of AdamW, whatever the shape") {
  for (const Shape shape : {Shape{16, 64}, Shape{64, 16}, Shape{48, 48}}) {
    OptimizerConfig config;
    config.weight_decay = 0;
    MuonFixture f(Numerics::f32, {shape}, config);
    const Param& param = f.params.all().front();
    const std::vector<double> before = values(param.master);
    randomize(f.gradients.of(param), "gradient");
    f.step(1);
    double squares = 0;
    for (Index i = 0; i < param.count(); ++i) {
      squares += std::pow(values(param.master)[i] - before[i], 2);
    }
    const double rms = std::sqrt(squares / static_cast<double>(param.count()));
    CHECK(rms > 0.2 * 0.6);
    CHECK(rms < 0.2 * 1.15);
  }
}

TEST_CASE("each expert's update equals that of its matrix alone, bit for bit") {
  for (const Numerics numerics : {Numerics::f32, Numerics::bf16}) {
    for (const Shape shape : {Shape{3, 8, 20}, Shape{3, 20, 8}}) {
      const Shape one{shape[1], shape[2]};
      MuonFixture stack(numerics, {shape}), alone(numerics, {one, one, one});
      const Param& stacked = stack.params.all().front();
      randomize(stack.gradients.of(stacked), "gradient");
      for (Index e = 0; e < 3; ++e) {
        const Param& param = alone.params.all()[e];
        alone.backend.move->copy(stacked.master[e], param.master);
        alone.backend.move->copy(stack.gradients.of(stacked)[e], alone.gradients.of(param));
      }
      for (int i = 0; i < 2; ++i) {
        stack.step(0.02);
        alone.step(0.02);
      }
      for (Index e = 0; e < 3; ++e) {
        CHECK(equal_bits(stacked.master[e], alone.params.all()[e].master));
        CHECK(equal_bits(stacked.weight[e], alone.params.all()[e].weight));
      }
    }
  }
}

TEST_CASE("compute copies are the rounded masters after a step") {
  MuonFixture f(Numerics::bf16, {Shape{10, 6}});
  const Param& param = f.params.all().front();
  randomize(f.gradients.of(param), "gradient");
  f.step(0.1);
  CHECK(param.weight.dtype() == DType::bf16);
  CHECK(equal_bits(param.weight, converted(f.arena, param.master, DType::bf16)));
}

TEST_CASE("f32 products in a bf16 run are those of an f32 run") {
  OptimizerConfig config;
  config.muon_dtype = "f32";
  MuonFixture mixed(Numerics::bf16, {Shape{10, 6}}, config), full(Numerics::f32, {Shape{10, 6}});
  for (MuonFixture* f : {&mixed, &full}) {
    randomize(f->gradients.of(f->params.all().front()), "gradient");
    f->step(0.1);
  }
  CHECK(equal_bits(mixed.params.all().front().master, full.params.all().front().master));
}

}  // namespace zaya
