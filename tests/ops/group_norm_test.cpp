// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/group_norm.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;
using namespace tessera::test;
using Names = std::vector<std::string>;

namespace {

constexpr double kEpsilon = 1e-3;

bool lists(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// For each element of `shape` the number of its index among the dims that pass `keep`.
std::vector<std::size_t> groups_of(const Shape& shape,
                                   const std::function<bool(const std::string&)>& keep) {
  std::vector<std::size_t> result;
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    std::int64_t left = i, group = 0, scale = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      if (keep(shape[d].name)) {
        group += left % shape[d].size * scale;
        scale *= shape[d].size;
      }
      left /= shape[d].size;
    }
    result.push_back(static_cast<std::size_t>(group));
  }
  return result;
}

std::vector<double> naive(const Values& values, const Shape& shape, const Names& over,
                          const Names& parameters) {
  const auto& x = values.at("x");
  const auto group = groups_of(shape, [&](const std::string& n) { return !lists(over, n); });
  const auto line = groups_of(shape, [&](const std::string& n) { return lists(parameters, n); });
  std::map<std::size_t, double> count, mean, variance;
  for (std::size_t i = 0; i < x.size(); ++i) count[group[i]] += 1;
  for (std::size_t i = 0; i < x.size(); ++i) mean[group[i]] += x[i] / count[group[i]];
  for (std::size_t i = 0; i < x.size(); ++i)
    variance[group[i]] += std::pow(x[i] - mean[group[i]], 2) / count[group[i]];
  std::vector<double> y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double v = (x[i] - mean[group[i]]) / std::sqrt(variance[group[i]] + kEpsilon);
    if (values.contains("scale")) v *= values.at("scale")[line[i]];
    if (values.contains("bias")) v += values.at("bias")[line[i]];
    y.push_back(v);
  }
  return y;
}

OpCase norm_case(const std::string& name, const Shape& shape, const Names& over,
                 const Names& parameters, bool scale, bool bias) {
  OpCase c;
  c.name = name;
  std::vector<Dim> line;
  for (const auto& dim : shape)
    if (lists(parameters, dim.name)) line.push_back(dim);
  c.inputs = {{"x", shape}};
  if (scale) c.inputs.push_back({"scale", Shape(line)});
  if (bias) c.inputs.push_back({"bias", Shape(line)});
  c.build = [=](Graph&, const std::vector<Tensor>& in) {
    return ops::group_norm(in[0], over, parameters, scale ? in[1] : Tensor(),
                           bias ? in[2] : Tensor(), kEpsilon)
        .value;
  };
  c.reference = [=](const Values& values) { return naive(values, shape, over, parameters); };
  return c;
}

}  // namespace

TEST_CASE("batch norm over the whole batch, wherever it is cut") {
  const Shape images{{"n", 3}, {"rows", 3}, {"cols", 2}, {"c", 3}};
  check_op(norm_case("batch norm", images, {"n", "rows", "cols"}, {"c"}, true, true));
  check_op(norm_case("batch norm alone", images, {"n", "rows", "cols"}, {"c"}, false, false));
  // Channels first: the same with the dims in another order.
  const Shape first{{"n", 3}, {"c", 2}, {"rows", 3}};
  check_op(norm_case("batch norm, channels first", first, {"n", "rows"}, {"c"}, true, true));
}

TEST_CASE("batch norm per replica: a kept dim has statistics of its own") {
  const Shape images{{"replica", 2}, {"n", 4}, {"c", 3}};
  check_op(norm_case("per replica", images, {"n"}, {"c"}, true, true));
}

TEST_CASE("group norm and instance norm") {
  const Shape images{{"n", 2}, {"rows", 3}, {"cols", 2}, {"g", 2}, {"c", 3}};
  check_op(norm_case("group norm", images, {"rows", "cols", "c"}, {"g", "c"}, true, true));
  check_op(norm_case("instance norm", images, {"rows", "cols"}, {"g", "c"}, true, false));
}

TEST_CASE("group norms that do not fit are refused in words") {
  VariableSet variables;
  Graph graph("g", variables);
  const Tensor x = graph.input("x", {{{"n", 4}, {"c", 2}}, DType::f32});
  const Tensor wrong = graph.input("wrong", {{{"n", 4}}, DType::f32});
  CHECK_THROWS_AS(ops::group_norm(x, {"rows"}, {"c"}, {}, {}, 1e-5), UserError);
  CHECK_THROWS_AS(ops::group_norm(x, {}, {"c"}, {}, {}, 1e-5), UserError);
  CHECK_THROWS_AS(ops::group_norm(x, {"n"}, {"c"}, wrong, {}, 1e-5), UserError);
}
