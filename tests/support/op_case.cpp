// SPDX-License-Identifier: BSD-3-Clause
#include "support/op_case.hpp"
#include "support/apart.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/plan/search.hpp"

namespace tessera::test {
namespace {

constexpr std::int64_t kParts = 3;
/// Layouts of a mesh that are run at most, and those that are run for second gradients.
constexpr std::size_t kLayouts = 250;
constexpr int kSecondLayouts = 3;
/// Legal layouts of each mesh that are run over processes.
constexpr int kProcessLayouts = 6;

/// What a graph of a case is built for: `partial`: float inputs are sums over a further dim
/// "parts", which a layout may cut. `second`: gradients of the gradients.
enum class Variety { plain, partial, second };

/// The graph of a case: result "y", gradients "d_<input>". Of the second variety: "turned" =
/// sum(d_<input> x turn_<input>), and its gradients "dd_<input>" and "dd_weights", those that
/// exist.
struct Built {
  VariableSet variables;
  Graph graph{"op", variables};
  Shape result;
  std::vector<std::string> fetched{"y"};

  Built(const OpCase& op, Variety variety) {
    const bool partial = variety == Variety::partial;
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
      if (variety != Variety::second) fetch("d_" + names[i], slopes[i]);
    }
    if (variety != Variety::second) return;
    std::vector<Tensor> terms;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Tensor turn = graph.input("turn_" + names[i], {wanted[i].shape(), DType::f64});
      terms.push_back(ops::reduce_sum(ops::multiply(slopes[i], turn), Shape{}));
    }
    const Tensor turned = ops::add_n(terms);
    fetch("turned", turned);
    wanted.push_back(weights);
    names.emplace_back("weights");
    const auto second = gradients(turned, wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (second[i]) fetch("dd_" + names[i], second[i]);
  }
  void fetch(const std::string& name, Tensor value) {
    graph.fetch(name, value);
    fetched.push_back(name);
  }
  bool fetches(const std::string& name) const {
    return std::find(fetched.begin(), fetched.end(), name) != fetched.end();
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
    values["turn_" + input.name] = random_values(random, size, {});
  }
  values["weights"] = random_values(random, result.size(), {});
  return values;
}

void check_close(const std::vector<double>& found, const std::vector<double>& expected,
                 double tolerance) {
  REQUIRE(found.size() == expected.size());
  double scale = 1, worst = 0;
  for (double value : expected) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double difference = std::abs(found[i] - expected[i]);
    worst = worse(worst, difference);
  }
  CHECK(worst <= tolerance * scale);
}

/// The slopes of f by central differences along each element of one of the values.
std::vector<double> differences(const Values& values, const std::string& input,
                                const std::function<double(const Values&)>& f) {
  constexpr double kStep = 1e-5;
  std::vector<double> slopes;
  Values moved = values;
  for (std::size_t i = 0; i < values.at(input).size(); ++i) {
    const double x = values.at(input)[i];
    moved[input][i] = x + kStep;
    const double above = f(moved);
    moved[input][i] = x - kStep;
    const double below = f(moved);
    moved[input][i] = x;
    slopes.push_back((above - below) / (2 * kStep));
  }
  return slopes;
}

/// Null: all ranks are simulated.
const Processes* processes() {
  if (make_processes == nullptr) return nullptr;
  static const Processes made = make_processes();
  return &made;
}

double weighted(const std::vector<double>& y, const std::vector<double>& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * weights[i];
  return sum;
}

void check_gradient(const OpCase& op, const Values& values, const std::string& input,
                    const std::vector<double>& gradient) {
  check_close(gradient,
              differences(values, input,
                          [&](const Values& moved) {
                            return weighted(op.reference(moved), moved.at("weights"));
                          }),
              1e-7);
}

/// All maps of the dims to the mesh's dims or none that put no two dims of a tensor on one mesh
/// dim, at most kLayouts of them; in random order if `shuffled` or there are more.
std::vector<Layout> layouts(const Built& built, const MeshShape& mesh, bool shuffled) {
  const plan::DimConflicts conflicts(built.variables, {&built.graph});
  std::vector<std::vector<Layout::Rule>> all(1);
  for (const auto& dim : plan::tensor_dims(built.variables, {&built.graph})) {
    const std::size_t before = all.size();
    for (std::size_t i = 0; i < before; ++i)
      for (int m = 0; m < mesh.rank(); ++m) {
        const bool legal = std::none_of(all[i].begin(), all[i].end(), [&](const auto& rule) {
          return rule.second == mesh[m].name && conflicts.conflict(rule.first, dim);
        });
        if (!legal) continue;
        auto rules = all[i];
        rules.emplace_back(dim, mesh[m].name);
        all.push_back(std::move(rules));
      }
  }
  if (shuffled || all.size() > kLayouts) {
    std::mt19937 random(5);
    std::shuffle(all.begin(), all.end(), random);
    all.resize(std::min(all.size(), kLayouts));
  }
  std::vector<Layout> result;
  for (auto& rules : all) result.emplace_back(std::move(rules));
  return result;
}

/// Every legal layout, or the first so many of each mesh, gives the results of one rank. Returns
/// how many there were.
int check_meshes(const OpCase& op, const Built& built, const Values& values, const Values& expected,
                 int of_each_mesh = 0) {
  int legal = 0;
  const std::vector<std::string> meshes =
      processes() ? processes()->meshes
                  : std::vector<std::string>{"a:2", "a:3", "a:4", "a:8", "a:2,b:2"};
  for (const auto& text : meshes) {
    const MeshShape mesh = MeshShape::parse(text, 0);
    const auto collectives = processes() ? processes()->collectives(mesh) : nullptr;
    int of_this = 0;
    for (const auto& layout : layouts(built, mesh, of_each_mesh > 0)) {
      if (of_each_mesh > 0 && of_this == of_each_mesh) break;
      plan::PlanOptions options;
      options.mesh = mesh;
      options.layout = layout;
      std::unique_ptr<SimulatedRun> run;
      try {
        run = std::make_unique<SimulatedRun>(built.variables, std::vector{&built.graph}, options,
                                             collectives);
      } catch (const UserError&) {
        continue;  // two dims of one tensor on one mesh dim
      }
      ++legal;
      ++of_this;
      INFO(op.name << " on " << text << " under " << layout.to_string());
      run->run("op", values, op.feeds);
      for (const auto& name : built.fetched) {
        INFO("result " << name);
        check_close(run->fetch("op", name), expected.at(name), op.tolerance);
      }
    }
  }
  return legal;
}

/// Gradients of the gradients, by differences of the first on one rank, then on meshes.
void check_second_order(const OpCase& op, const Values& values) {
  const Built built(op, Variety::second);
  SimulatedRun one(built.variables, {&built.graph}, {});
  const auto turned = [&](const Values& inputs) {
    one.run("op", inputs, op.feeds);
    return one.fetch("op", "turned").at(0);
  };
  Values expected;
  INFO(op.name << ", second order");
  one.run("op", values, op.feeds);
  for (const auto& name : built.fetched) expected[name] = one.fetch("op", name);
  std::vector<std::string> inputs{"weights"};
  for (const auto& input : op.inputs)
    if (input.fill != OpInput::Fill::ids) inputs.push_back(input.name);
  for (const auto& input : inputs) {
    INFO("towards " << input);
    const auto slopes = differences(values, input, turned);
    check_close(built.fetches("dd_" + input) ? expected.at("dd_" + input)
                                             : std::vector<double>(slopes.size()),
                slopes, 1e-6);
  }
  CHECK(check_meshes(op, built, values, expected, kSecondLayouts) > 2);
}

/// A few layouts over processes give the results of one rank.
void check_processes(const OpCase& op) {
  for (const Variety variety : {Variety::plain, Variety::partial}) {
    if (variety == Variety::partial && !op.partial) continue;
    const Built whole(op, Variety::plain), built(op, variety);
    const Values values = make_values(op, whole.result);
    SimulatedRun one(whole.variables, {&whole.graph}, {});
    one.run("op", values, op.feeds);
    Values expected;
    for (const auto& name : whole.fetched) expected[name] = one.fetch("op", name);
    CHECK(check_meshes(op, built, values, expected, kProcessLayouts) > 0);
  }
}

}  // namespace

std::size_t at(const Shape& shape, std::initializer_list<std::int64_t> index) {
  std::int64_t result = 0;
  int d = 0;
  for (std::int64_t i : index) result = result * shape[d++].size + i;
  return static_cast<std::size_t>(result);
}

void check_op(const OpCase& op) {
  if (bench_elements() > 0) {
    CHECK(bench_op(op, bench_elements()));
    return;
  }
  if (processes()) {
    check_processes(op);
    return;
  }
  const Built built(op, Variety::plain);
  const Values values = make_values(op, built.result);
  SimulatedRun one(built.variables, {&built.graph}, {});
  one.run("op", values, op.feeds);
  Values expected;
  {
    INFO(op.name << " on one rank");
    for (const auto& name : built.fetched) expected[name] = one.fetch("op", name);
    check_close(expected["y"], op.reference(values), op.tolerance);
    for (const auto& name : built.fetched) {
      INFO("result " << name);
      if (name != "y") check_gradient(op, values, name.substr(2), expected[name]);
    }
  }
  CHECK(check_meshes(op, built, values, expected) > 5);
  if (op.differentiable && op.second_order) check_second_order(op, values);
  if (!op.partial) return;
  const Built parts(op, Variety::partial);
  OpCase partial = op;
  partial.name += ", partial inputs,";
  CHECK(check_meshes(partial, parts, values, expected) > 5);
}

}  // namespace tessera::test
