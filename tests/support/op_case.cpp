// SPDX-License-Identifier: BSD-3-Clause
#include "support/op_case.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/reduce.hpp"

namespace tessera::test {
namespace {

constexpr std::int64_t kParts = 3;

/// The graph of a case: result "y", gradients "d_<input>". With `partial`, float inputs are sums
/// over a further dim "parts", which a layout may cut.
struct Built {
  VariableSet variables;
  Graph graph{"op", variables};
  Shape result;

  Built(const OpCase& op, bool partial) {
    ops::install();
    std::vector<Tensor> inputs, wanted;
    std::vector<std::string> names;
    for (const auto& input : op.inputs) {
      const bool ids = input.fill == OpInput::Fill::ids;
      Tensor x;
      if (partial && !ids) {
        std::vector<Dim> dims = input.shape.dims();
        dims.insert(dims.begin(), {"parts", kParts});
        x = ops::reduce_sum(graph.input(input.name + "_parts", {Shape(dims), DType::f64}),
                            input.shape);
      } else {
        x = graph.input(input.name, {input.shape, ids ? DType::i32 : DType::f64});
      }
      inputs.push_back(x);
      if (ids) continue;
      wanted.push_back(x);
      names.push_back(input.name);
    }
    const Tensor y = op.build(graph, inputs);
    result = y.shape();
    graph.fetch("y", y);
    if (!op.differentiable) return;
    const Tensor weights = graph.input("weights", {y.shape(), DType::f64});
    const auto slopes = gradients(ops::reduce_sum(ops::multiply(y, weights), Shape{}), wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      REQUIRE(slopes[i]);
      graph.fetch("d_" + names[i], slopes[i]);
    }
  }
};

std::vector<double> random_values(std::mt19937& random, std::int64_t size, const OpInput& input) {
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(size));
  for (double& value : values) {
    value = normal(random);
    if (input.fill == OpInput::Fill::positive) value = std::abs(value) + 0.5;
    if (input.fill == OpInput::Fill::ids)
      value = static_cast<double>(random() % static_cast<std::uint64_t>(input.below));
  }
  return values;
}

/// Whole inputs, and the parts that sum up to them.
Values make_values(const OpCase& op, const Shape& result) {
  std::mt19937 random(17);
  Values values;
  for (const auto& input : op.inputs) {
    const std::int64_t size = input.shape.size();
    if (input.fill == OpInput::Fill::ids) {
      values[input.name] = random_values(random, size, input);
      continue;
    }
    const auto parts = random_values(random, kParts * size, input);
    std::vector<double> whole(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < parts.size(); ++i) whole[i % whole.size()] += parts[i];
    values[input.name + "_parts"] = parts;
    values[input.name] = whole;
  }
  values["weights"] = random_values(random, result.size(), {});
  return values;
}

std::vector<std::string> fetched(const OpCase& op) {
  std::vector<std::string> names{"y"};
  if (op.differentiable)
    for (const auto& input : op.inputs)
      if (input.fill != OpInput::Fill::ids) names.push_back("d_" + input.name);
  return names;
}

void check_close(const std::vector<double>& found, const std::vector<double>& expected,
                 double tolerance) {
  REQUIRE(found.size() == expected.size());
  double scale = 1, worst = 0;
  for (double value : expected) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double difference = std::abs(found[i] - expected[i]);
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
  }
  CHECK(worst <= tolerance * scale);
}

double weighted(const std::vector<double>& y, const std::vector<double>& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * weights[i];
  return sum;
}

void check_gradient(const OpCase& op, const Values& values, const std::string& input,
                    const std::vector<double>& gradient) {
  constexpr double kStep = 1e-5;
  std::vector<double> expected;
  Values moved = values;
  for (std::size_t i = 0; i < values.at(input).size(); ++i) {
    const double x = values.at(input)[i];
    moved[input][i] = x + kStep;
    const double above = weighted(op.reference(moved), values.at("weights"));
    moved[input][i] = x - kStep;
    const double below = weighted(op.reference(moved), values.at("weights"));
    moved[input][i] = x;
    expected.push_back((above - below) / (2 * kStep));
  }
  check_close(gradient, expected, 1e-7);
}

/// All maps of the dims to the mesh's dims or none, at most `limit` of them picked at random.
std::vector<Layout> layouts(const std::vector<std::string>& dims, const MeshShape& mesh,
                            std::size_t limit) {
  std::vector<Layout> all;
  std::size_t count = 1;
  for (std::size_t d = 0; d < dims.size(); ++d) count *= static_cast<std::size_t>(mesh.rank()) + 1;
  std::vector<std::size_t> codes(count);
  for (std::size_t i = 0; i < count; ++i) codes[i] = i;
  if (count > limit) {
    std::mt19937 random(5);
    std::shuffle(codes.begin(), codes.end(), random);
    codes.resize(limit);
  }
  for (std::size_t code : codes) {
    std::vector<Layout::Rule> rules;
    for (const auto& dim : dims) {
      const auto choice = code % (static_cast<std::size_t>(mesh.rank()) + 1);
      code /= static_cast<std::size_t>(mesh.rank()) + 1;
      if (choice > 0) rules.emplace_back(dim, mesh[static_cast<int>(choice) - 1].name);
    }
    all.emplace_back(std::move(rules));
  }
  return all;
}

/// Every legal layout gives the results of one rank. Returns how many were legal.
int check_meshes(const OpCase& op, const Built& built, const Values& values,
                 const Values& expected) {
  int legal = 0;
  const auto dims = plan::tensor_dims(built.variables, {&built.graph});
  for (const char* text : {"a:2", "a:3", "a:4", "a:8", "a:2,b:2"}) {
    const MeshShape mesh = MeshShape::parse(text, 0);
    for (const auto& layout : layouts(dims, mesh, 250)) {
      plan::PlanOptions options;
      options.mesh = mesh;
      options.layout = layout;
      std::unique_ptr<SimulatedRun> run;
      try {
        run = std::make_unique<SimulatedRun>(built.variables, std::vector{&built.graph}, options);
      } catch (const UserError&) {
        continue;  // two dims of one tensor on one mesh dim
      }
      ++legal;
      INFO(op.name << " on " << text << " under " << layout.to_string());
      run->run("op", values, op.feeds);
      for (const auto& name : fetched(op)) {
        INFO("result " << name);
        check_close(run->fetch("op", name), expected.at(name), op.tolerance);
      }
    }
  }
  return legal;
}

}  // namespace

std::size_t at(const Shape& shape, std::initializer_list<std::int64_t> index) {
  std::int64_t result = 0;
  int d = 0;
  for (std::int64_t i : index) result = result * shape[d++].size + i;
  return static_cast<std::size_t>(result);
}

void check_op(const OpCase& op) {
  const Built built(op, false);
  const Values values = make_values(op, built.result);
  SimulatedRun one(built.variables, {&built.graph}, {});
  one.run("op", values, op.feeds);
  Values expected;
  {
    INFO(op.name << " on one rank");
    for (const auto& name : fetched(op)) expected[name] = one.fetch("op", name);
    check_close(expected["y"], op.reference(values), op.tolerance);
    for (const auto& name : fetched(op)) {
      INFO("result " << name);
      if (name != "y") check_gradient(op, values, name.substr(2), expected[name]);
    }
  }
  CHECK(check_meshes(op, built, values, expected) > 5);
  if (!op.partial) return;
  const Built parts(op, true);
  OpCase partial = op;
  partial.name += ", partial inputs,";
  CHECK(check_meshes(partial, parts, values, expected) > 5);
}

}  // namespace tessera::test
