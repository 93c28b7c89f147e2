// SPDX-License-Identifier: BSD-3-Clause
// Weights stored split over a data-parallel mesh dim: what they cost and what they save.
#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/plan/planner.hpp"
#include "tessera/plan/report.hpp"

using namespace tessera;

namespace {

constexpr std::int64_t kLayers = 8, kSize = 256, kBatch = 4096, kRanks = 4;
constexpr std::int64_t kWeightBytes = kSize * kSize * 4;

/// A chain of square layers and its gradients.
struct Chain {
  VariableSet variables;
  Graph micro{"micro", variables};
  Graph update{"update", variables};

  Chain() {
    const auto dim = [](std::int64_t layer) { return Dim{layer % 2 ? "odd" : "even", kSize}; };
    const Dim batch{"batch", kBatch};
    Tensor x = micro.input("x", {Shape{batch, dim(0)}, DType::f32});
    std::vector<Tensor> weights;
    const auto weight = [&](const std::string& name, Shape shape) {
      weights.push_back(micro.variable(
          {name, {std::move(shape), DType::f32}, Variable::Kind::weight, {}, true, true, ""}));
      return weights.back();
    };
    for (std::int64_t i = 0; i < kLayers; ++i) {
      const Tensor w = weight("w" + std::to_string(i), Shape{dim(i), dim(i + 1)});
      const Tensor bias = weight("bias" + std::to_string(i), Shape{dim(i + 1)});
      x = ops::tanh(ops::add(ops::einsum({x, w}, Shape{batch, dim(i + 1)}), bias));
    }
    const auto slopes = gradients(ops::reduce_sum(ops::square(x), Shape{}), weights);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::string& of = weights[i].name();
      const std::string name = "gradient/" + of;
      variables.declare({name, weights[i].spec(), Variable::Kind::gradient, {}, true, true, of});
      micro.accumulate(name, slopes[i], true);
      update.assign(of, ops::subtract(update.read(of), update.read(name)));
    }
  }
  program::Program compile(const std::string& store) const {
    plan::PlanOptions options;
    options.mesh = MeshShape::parse("batch:4", 0);
    options.layout = Layout::parse("batch:batch");
    options.store = store;
    return plan::compile(variables, {&micro, &update}, options);
  }
};

}  // namespace

TEST_CASE("weights are gathered in forward and again in backward, and released between") {
  const Chain chain;
  const auto whole = chain.compile(""), stored = chain.compile("batch");
  std::int64_t gathers = 0;
  for (const auto& row : plan::collectives_of(stored, stored.section("micro")))
    if (row.op == program::CollectiveKind::all_gather) {
      gathers += row.count;
      CHECK(row.bytes == row.count * kWeightBytes);
    }
  // The first layer needs no slope of its input; the last ones are used again at once.
  CHECK(gathers >= 2 * kLayers - 4);
  CHECK(gathers < 2 * kLayers);
  const auto report = [](const program::Program& program) {
    return plan::report(program, {{"micro", 1}, {"update", 1}}).bytes_per_rank;
  };
  constexpr std::int64_t kBiasBytes = kSize * 4;
  CHECK(report(whole).parameters == kLayers * (kWeightBytes + kBiasBytes));
  CHECK(report(stored).parameters == kLayers * (kWeightBytes / kRanks + kBiasBytes));
  // Never more than a few gathered weights at once.
  CHECK(stored.section("micro").arena_bytes <
        whole.section("micro").arena_bytes + 5 * kWeightBytes);
  // Gradients go to where the weights are, those of the biases together; new weights stay there.
  const auto update = plan::collectives_of(stored, stored.section("update"));
  REQUIRE(update.size() == 2);
  CHECK(update[0].op == program::CollectiveKind::reduce_scatter);
  CHECK(update[0].bytes == kLayers * kWeightBytes);
  CHECK(update[1].op == program::CollectiveKind::all_reduce);
  CHECK(update[1].count == 1);
  CHECK(update[1].bytes == kLayers * kBiasBytes);
}

TEST_CASE("layout.store names a mesh dim") {
  CHECK_THROWS_AS(Chain().compile("bach"), UserError);
}
