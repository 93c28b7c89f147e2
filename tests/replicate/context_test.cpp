// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>

#include "support/catch.hpp"
#include "support/op_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/group_norm.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/replicate/replica_context.hpp"

using namespace tessera;
using namespace tessera::replicate;
using namespace tessera::test;

namespace {

constexpr std::int64_t kReplicas = 3, kSize = 4;
const Shape kEach{{"replica", kReplicas}, {"n", kSize}};

using Build = std::function<Tensor(const ReplicaContext&, Tensor x)>;
using Reference =
    std::function<double(const std::vector<double>& x, std::int64_t r, std::int64_t n)>;

/// x differs between replicas; the result is compared as [replica, n]: a mirrored one must be the
/// same on all.
void check(const std::string& name, const Shape& shape, const Build& build,
           const Reference& reference, double tolerance = 1e-10) {
  OpCase c;
  c.name = name;
  c.inputs = {{"x", shape}};
  c.tolerance = tolerance;
  c.build = [build](Graph& graph, const std::vector<Tensor>& in) {
    const ReplicaContext context(graph, kReplicas);
    return context.per_replica(build(context, in[0]));
  };
  c.reference = [reference](const Values& values) {
    std::vector<double> y;
    for (std::int64_t r = 0; r < kReplicas; ++r)
      for (std::int64_t n = 0; n < kSize; ++n) y.push_back(reference(values.at("x"), r, n));
    return y;
  };
  check_op(c);
}

/// Element n of every replica.
std::vector<double> column(const std::vector<double>& x, std::int64_t n) {
  std::vector<double> values;
  for (std::int64_t r = 0; r < kReplicas; ++r)
    values.push_back(x[static_cast<std::size_t>(r * kSize + n)]);
  return values;
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (double value : values) total += value;
  return total;
}

}  // namespace

TEST_CASE("replicas reduce their values, each of them getting the result") {
  using Values3 = std::vector<double>;
  const std::vector<std::pair<Combine, double (*)(const Values3&)>> ways{
      {Combine::sum, sum},
      {Combine::mean, [](const Values3& v) { return sum(v) / kReplicas; }},
      {Combine::min, [](const Values3& v) { return *std::min_element(v.begin(), v.end()); }},
      {Combine::max, [](const Values3& v) { return *std::max_element(v.begin(), v.end()); }}};
  for (const auto& [how, f] : ways)
    check(
        concat("all_reduce ", static_cast<int>(how)), kEach,
        [how = how](const ReplicaContext& c, Tensor x) { return c.all_reduce(x, how); },
        [f = f](const Values3& x, std::int64_t, std::int64_t n) { return f(column(x, n)); });
}

TEST_CASE("a mirrored value counts once for each replica") {
  const Shape mirrored{{"n", kSize}};
  const auto value = [](const std::vector<double>& x, std::int64_t, std::int64_t n) {
    return x[static_cast<std::size_t>(n)];
  };
  check(
      "all_sum", mirrored, [](const ReplicaContext& c, Tensor x) { return c.all_sum(x); },
      [&](const auto& x, std::int64_t r, std::int64_t n) { return kReplicas * value(x, r, n); });
  check(
      "all_mean", mirrored, [](const ReplicaContext& c, Tensor x) { return c.all_mean(x); }, value);
  check(
      "broadcast", mirrored, [](const ReplicaContext& c, Tensor x) { return c.broadcast(x, 1); },
      value);
}

TEST_CASE("a replica's value reaches all, and each knows its number") {
  check(
      "broadcast", kEach, [](const ReplicaContext& c, Tensor x) { return c.broadcast(x, 2); },
      [](const auto& x, std::int64_t, std::int64_t n) { return column(x, n)[2]; });
  check(
      "id", kEach,
      [](const ReplicaContext& c, Tensor x) {
        return ops::multiply(x, ops::cast(c.replica_id(), DType::f64));
      },
      [](const auto& x, std::int64_t r, std::int64_t n) {
        return column(x, n)[static_cast<std::size_t>(r)] * static_cast<double>(r);
      });
}

TEST_CASE("gathered values are whole on each replica") {
  check(
      "all_gather", kEach,
      [](const ReplicaContext& c, Tensor x) {
        const auto parts = ops::unstack(c.all_gather(x, "all"), "all");
        return ops::multiply(x, ops::add(ops::square(parts[0]), ops::multiply(parts[2], 3)));
      },
      [](const auto& x, std::int64_t r, std::int64_t n) {
        const auto all = column(x, n);
        return (all[0] * all[0] + 3 * all[2]) * all[static_cast<std::size_t>(r)];
      });
}

TEST_CASE("pieces are shared out over replicas, more or fewer than there are") {
  for (std::int64_t pieces : {1, 2, 5}) {
    const Shape shape{{"piece", pieces}, {"n", kSize}};
    const auto cut = [](Tensor x) {
      std::vector<std::vector<Tensor>> operands;
      for (const auto& part : ops::unstack(x, "piece"))
        operands.push_back({part, ops::square(part)});
      return operands;
    };
    const auto work = [](const std::vector<Tensor>& in) {
      return std::vector{ops::multiply(in[0], in[1]), ops::exp(in[0])};
    };
    const auto cubes = [pieces](const std::vector<double>& x, std::int64_t n) {
      double total = 0;
      for (std::int64_t i = 0; i < pieces; ++i)
        total += std::pow(x[static_cast<std::size_t>(i * kSize + n)], 3);
      return total;
    };
    check(
        concat("map_reduce ", pieces), shape,
        [&](const ReplicaContext& c, Tensor x) {
          return c.map_reduce(cut(x), work, Combine::sum)[0];
        },
        [&](const auto& x, std::int64_t, std::int64_t n) { return cubes(x, n); });
    check(
        concat("map_gather ", pieces), shape,
        [&](const ReplicaContext& c, Tensor x) {
          const auto results = c.map_gather(cut(x), work);
          REQUIRE(static_cast<std::int64_t>(results.size()) == pieces);
          return ops::add(results.back()[0], results.front()[1]);
        },
        [&](const auto& x, std::int64_t, std::int64_t n) {
          const double last = x[static_cast<std::size_t>((pieces - 1) * kSize + n)];
          return last * last * last + std::exp(x[static_cast<std::size_t>(n)]);
        });
  }
}

TEST_CASE("a batch norm over replicas, written with all_reduce, is the built-in one") {
  const Shape shape{{"replica", kReplicas}, {"batch", 2}, {"n", kSize}};
  constexpr double kEpsilon = 1e-3;
  const auto own = [](const ReplicaContext& c, Tensor x) {
    const Tensor first = ops::slice(x, "batch", 0, 1), second = ops::slice(x, "batch", 1, 1);
    const auto over_batch = [](Tensor a, Tensor b) { return ops::multiply(ops::add(a, b), 0.5); };
    const Tensor mean = c.all_mean(over_batch(first, second));
    const Tensor variance = c.all_mean(over_batch(ops::square(ops::subtract(first, mean)),
                                                  ops::square(ops::subtract(second, mean))));
    return ops::reshape(
        ops::multiply(ops::subtract(first, mean), ops::rsqrt(ops::add(variance, kEpsilon))), kEach);
  };
  const auto built_in = [](const ReplicaContext&, Tensor x) {
    const Tensor y =
        ops::group_norm(x, {"replica", "batch"}, {}, Tensor(), Tensor(), kEpsilon).value;
    return ops::reshape(ops::slice(y, "batch", 0, 1), kEach);
  };
  const auto formula = [](const std::vector<double>& x, std::int64_t r, std::int64_t n) {
    double mean = 0, square = 0;
    for (std::int64_t i = 0; i < 2 * kReplicas; ++i)
      mean += x[static_cast<std::size_t>(i * kSize + n)] / (2 * kReplicas);
    for (std::int64_t i = 0; i < 2 * kReplicas; ++i)
      square += std::pow(x[static_cast<std::size_t>(i * kSize + n)] - mean, 2) / (2 * kReplicas);
    return (x[static_cast<std::size_t>(2 * r * kSize + n)] - mean) / std::sqrt(square + kEpsilon);
  };
  check("own", shape, own, formula, 1e-9);
  check("built in", shape, built_in, formula, 1e-9);
}

TEST_CASE("what cannot be combined is refused by name") {
  VariableSet variables;
  Graph graph("micro", variables);
  const ReplicaContext context(graph, kReplicas);
  const Tensor x = graph.input("x", {kEach, DType::f64});
  const Tensor n = graph.input("n", {Shape{{"n", kSize}}, DType::f64});
  const auto same = [](const std::vector<Tensor>& in) { return in; };
  CHECK_THROWS_AS(context.broadcast(x, kReplicas), UserError);
  CHECK_THROWS_AS(context.all_gather(x, "n"), UserError);
  CHECK_THROWS_AS(context.map_gather({}, same), UserError);
  CHECK_THROWS_AS(context.map_gather({{n}, {n, n}}, same), UserError);
  CHECK_THROWS_AS(context.map_gather({{x}}, same), UserError);
  CHECK_THROWS_AS(
      context.map_gather({{n}}, [&](const std::vector<Tensor>&) { return std::vector{n}; }),
      UserError);
  CHECK_THROWS_AS(ReplicaContext(graph, 0), UserError);
}
