// SPDX-License-Identifier: BSD-3-Clause
// The spectral norm of matrices whose singular values are known, its gradient against central
// differences with the singular vectors held, and the same numbers on every mesh.
#include "tessera/nn/spectral_norm.hpp"

#include <cmath>
#include <random>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kA = 3, kB = 2, kOut = 4, kIn = kA * kB;
const Shape kShape{{"a", kA}, {"b", kB}, {"out", kOut}};
const std::vector<double> kSingular{3, 1.5, 1, 0.25};
using Vector = std::vector<double>;

/// Row i of the orthogonal matrix that mirrors along x.
double mirror(const Vector& x, std::size_t i, std::size_t j) {
  double norm = 0;
  for (double value : x) norm += value * value;
  return (i == j ? 1 : 0) - 2 * x[i] * x[j] / norm;
}

/// A weight [a, b, out] with the singular values kSingular.
Vector known_weight() {
  const Vector right{1, -2, 3, 0.5, -1, 2}, left{2, 1, -1, 3};
  Vector w;
  for (std::size_t i = 0; i < kIn; ++i)
    for (std::size_t o = 0; o < kOut; ++o) {
      double sum = 0;
      for (std::size_t k = 0; k < kSingular.size(); ++k)
        sum += kSingular[k] * mirror(right, k, i) * mirror(left, k, o);
      w.push_back(sum);
    }
  return w;
}

/// Fetches "y", the normalised weight, and "slope", the gradient of sum(y x factor) to the weight.
void build(Graph& graph, nn::Spectral spectral) {
  const Tensor w = nn::weight(graph, "w", kShape, DType::f64, Initializer::normal(1));
  const Tensor factor = graph.input("factor", {kShape, DType::f64});
  const Tensor y = nn::spectral_norm(w, {"out"}, "w", spectral);
  graph.fetch("y", y);
  graph.fetch("slope", gradients(ops::reduce_sum(ops::multiply(y, factor), Shape{}), {w}).at(0));
}

struct Net {
  VariableSet variables;
  Graph moving{"moving", variables}, kept{"kept", variables};
  std::unique_ptr<SimulatedRun> run;

  explicit Net(const plan::PlanOptions& options = {}) {
    build(moving, nn::Spectral::moving);
    build(kept, nn::Spectral::kept);
    run = std::make_unique<SimulatedRun>(variables, std::vector<const Graph*>{&moving, &kept},
                                         options);
    run->executor().initialize(3);
    run->set_variable("w", known_weight());
  }
  Vector get(const std::string& section, const std::string& name, const Vector& factor) {
    run->run(section, {{"factor", factor}});
    return run->fetch(section, name);
  }
};

Vector factors() {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  Vector values;
  for (std::int64_t i = 0; i < kShape.size(); ++i) values.push_back(normal(random));
  return values;
}

/// u' and v of one iteration from u, in plain loops.
std::pair<Vector, Vector> iterate(const Vector& w, const Vector& u) {
  Vector v(kIn), next(kOut);
  const auto scale = [](Vector& x) {
    double norm = 0;
    for (double value : x) norm += value * value;
    for (double& value : x) value /= std::sqrt(norm);
  };
  for (std::size_t i = 0; i < kIn; ++i)
    for (std::size_t o = 0; o < kOut; ++o) v[i] += w[i * kOut + o] * u[o];
  scale(v);
  for (std::size_t i = 0; i < kIn; ++i)
    for (std::size_t o = 0; o < kOut; ++o) next[o] += w[i * kOut + o] * v[i];
  scale(next);
  return {next, v};
}

/// sum(w / (u' W v) x factor) with u' and v as they are.
double value_at(const Vector& w, const std::pair<Vector, Vector>& uv, const Vector& factor) {
  double sigma = 0, sum = 0;
  for (std::size_t i = 0; i < kIn; ++i)
    for (std::size_t o = 0; o < kOut; ++o) sigma += uv.first[o] * w[i * kOut + o] * uv.second[i];
  for (std::size_t i = 0; i < w.size(); ++i) sum += w[i] / sigma * factor[i];
  return sum;
}

}  // namespace

TEST_CASE("power iteration finds the largest singular value, one step in each run") {
  Net net;
  const Vector w = known_weight();
  Vector u = net.run->variable("w_u");
  for (int step = 0; step < 40; ++step) {
    net.run->run("moving", {{"factor", factors()}});
    u = iterate(w, u).first;
    const Vector found = net.run->variable("w_u");
    for (std::size_t o = 0; o < kOut; ++o) REQUIRE(std::abs(found[o] - u[o]) < 1e-12);
  }
  const Vector y = net.run->fetch("moving", "y");
  for (std::size_t i = 0; i < w.size(); ++i) CHECK(std::abs(y[i] - w[i] / kSingular[0]) < 1e-12);
}

TEST_CASE("another section uses the vector and leaves it") {
  Net net;
  const Vector before = net.run->variable("w_u");
  const Vector kept = net.get("kept", "y", factors());
  CHECK(net.run->variable("w_u") == before);
  CHECK(net.get("moving", "y", factors()) == kept);
  CHECK(net.run->variable("w_u") != before);
}

TEST_CASE("the gradient of a spectral norm holds its singular vectors") {
  Net net;
  const Vector w = known_weight(), factor = factors();
  const auto uv = iterate(w, net.run->variable("w_u"));
  const Vector slope = net.get("kept", "slope", factor);
  for (std::size_t i = 0; i < w.size(); ++i) {
    constexpr double kStep = 1e-6;
    Vector more = w, less = w;
    more[i] += kStep;
    less[i] -= kStep;
    const double expected = (value_at(more, uv, factor) - value_at(less, uv, factor)) / (2 * kStep);
    CHECK(std::abs(slope[i] - expected) < 1e-8 * (1 + std::abs(expected)));
  }
}

TEST_CASE("a spectral norm is the same however its weight is cut") {
  // What one run gives, and the vector after it.
  const auto results = [](Net& net) {
    Vector all = net.get("moving", "y", factors());
    for (const Vector& more : {net.run->fetch("moving", "slope"), net.run->variable("w_u")})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  Net whole;
  const Vector expected = results(whole);
  for (const auto& [mesh, rules] : {std::pair{"m:2", "out:m"},
                                    {"m:3", "out:m"},
                                    {"m:2", "a:m"},
                                    {"m:4", "b:m"},
                                    {"m:2,n:2", "a:m, out:n"},
                                    {"m:2,n:2", "a:m, b:n"},
                                    {"m:8", "out:m"}}) {
    INFO(mesh << " under " << rules);
    plan::PlanOptions options;
    options.mesh = MeshShape::parse(mesh, 0);
    options.layout = Layout::parse(rules);
    Net net(options);
    const Vector found = results(net);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - expected[i]) < 1e-11);
  }
}

TEST_CASE("a spectral norm names a result dim that the weight lacks") {
  VariableSet variables;
  Graph graph("g", variables);
  const Tensor w = graph.input("w", {kShape, DType::f64});
  CHECK_THROWS_AS(nn::spectral_norm(w, {"heads"}, "w", nn::Spectral::kept), UserError);
}
