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

/// With rows of weight 0 among "rows" [rows] left out of the statistics.
std::vector<double> naive(const Values& values, const Shape& shape, const Names& over,
                          const Names& parameters, const Shape& rows) {
  const auto& x = values.at("x");
  const auto group = groups_of(shape, [&](const std::string& n) { return !lists(over, n); });
  const auto line = groups_of(shape, [&](const std::string& n) { return lists(parameters, n); });
  std::vector<double> counts(x.size(), 1);
  if (values.contains("rows")) {
    const auto row = groups_of(shape, [&](const std::string& n) { return rows.contains(n); });
    for (std::size_t i = 0; i < x.size(); ++i) counts[i] = values.at("rows")[row[i]];
  }
  std::map<std::size_t, double> count, mean, variance;
  for (std::size_t i = 0; i < x.size(); ++i) count[group[i]] += counts[i];
  const auto share = [&](std::size_t i) { return counts[i] / std::max(1.0, count[group[i]]); };
  for (std::size_t i = 0; i < x.size(); ++i) mean[group[i]] += x[i] * share(i);
  for (std::size_t i = 0; i < x.size(); ++i)
    variance[group[i]] += std::pow(x[i] - mean[group[i]], 2) * share(i);
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
                 const Names& parameters, bool scale, bool bias, const Shape& rows = {}) {
  OpCase c;
  c.name = name;
  std::vector<Dim> line;
  for (const auto& dim : shape)
    if (lists(parameters, dim.name)) line.push_back(dim);
  c.inputs = {{"x", shape}};
  if (scale) c.inputs.push_back({"scale", Shape(line)});
  if (bias) c.inputs.push_back({"bias", Shape(line)});
  if (rows.rank() > 0) c.inputs.push_back({"rows", rows, OpInput::Fill::ids, 2});
  c.build = [=](Graph&, const std::vector<Tensor>& in) {
    return ops::group_norm(in[0], over, parameters, scale ? in[1] : Tensor(),
                           bias ? in[2] : Tensor(), kEpsilon,
                           rows.rank() > 0 ? in.back() : Tensor())
        .value;
  };
  c.reference = [=](const Values& values) { return naive(values, shape, over, parameters, rows); };
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

TEST_CASE("rows of weight 0 are left out of statistics and normalised all the same") {
  const Shape images{{"n", 5}, {"rows", 2}, {"cols", 2}, {"c", 2}}, rows{{"n", 5}};
  check_op(norm_case("row weights", images, {"n", "rows", "cols"}, {"c"}, true, true, rows));
  check_op(norm_case("row weights alone", images, {"n", "rows", "cols"}, {}, false, false, rows));
  // They need not lie in front, nor have the kept dim.
  const Shape last{{"c", 2}, {"rows", 2}, {"replica", 2}, {"n", 4}}, each{{"n", 4}};
  check_op(norm_case("rows last", last, {"n", "rows"}, {"c"}, true, true, each));
  const Shape of_replicas{{"replica", 2}, {"n", 4}};
  check_op(norm_case("of replicas", last, {"n", "rows"}, {"c"}, true, false, of_replicas));
  check_op(norm_case("joined", last, {"replica", "n", "rows"}, {"c"}, true, true, of_replicas));
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
  const Tensor classes = graph.input("classes", {{{"c", 2}}, DType::f32});
  const Tensor more = graph.input("more", {{{"n", 5}}, DType::f32});
  CHECK_THROWS_AS(ops::group_norm(x, {"n"}, {"c"}, {}, {}, 1e-5, classes), UserError);
  CHECK_THROWS_AS(ops::group_norm(x, {"n"}, {"c"}, {}, {}, 1e-5, more), UserError);
}
