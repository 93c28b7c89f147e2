// SPDX-License-Identifier: BSD-3-Clause
// The search against an exhaustive look at made-up costs, and its promises about limits.
#include <algorithm>

#include "support/catch.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/plan/search.hpp"

using namespace tessera;

namespace {

/// b and h share a tensor, h and v don't.
struct Model {
  VariableSet variables;
  Graph graph{"micro", variables};
  Model() {
    const Tensor x = graph.input("x", {Shape{{"batch", 64}, {"d", 32}}, DType::f32});
    const auto weight = [&](const std::string& name, Shape shape) {
      return graph.variable(
          {name, {std::move(shape), DType::f32}, Variable::Kind::weight, {}, true, true, ""});
    };
    const Tensor w = weight("w", Shape{{"d", 32}, {"h", 128}});
    const Tensor u = weight("u", Shape{{"d", 32}, {"v", 96}});
    graph.fetch("y", ops::einsum({x, w}, Shape{{"batch", 64}, {"h", 128}}));
    graph.fetch("z", ops::einsum({x, u}, Shape{{"batch", 64}, {"v", 96}}));
  }
};

double ways(const plan::Candidate& choice, const std::string& dim) {
  const auto mesh_dim = choice.layout.mesh_dim_of(dim);
  if (!mesh_dim) return 1;
  return static_cast<double>(choice.mesh[*choice.mesh.find(*mesh_dim)].size);
}

/// Work that falls with every cut, communication that grows with the ways of h and of the batch,
/// memory that only cuts of weights and micro-batches reduce.
std::optional<plan::Evaluation> evaluate(const plan::Candidate& choice) {
  const double b = ways(choice, "batch"), h = ways(choice, "h"), v = ways(choice, "v");
  plan::Evaluation evaluation;
  auto& seconds = evaluation.predicted;
  seconds.compute = 80 / (b * h) + 20 / (b * v) + 0.2 * static_cast<double>(choice.micro_batches);
  seconds.exposed = 0.4 * (b - 1) / (h * v) + 0.3 * (h - 1);
  seconds.step = seconds.compute + seconds.exposed;
  evaluation.bytes = static_cast<std::int64_t>(6e6 / h + 2e6 / v +
                                               4e6 / static_cast<double>(choice.micro_batches));
  return evaluation;
}

plan::SearchOptions options(double& clock) {
  plan::SearchOptions options;
  options.ranks = 16;
  options.micro_batches = {1, 2, 4};
  options.mesh_names = {"data", "model"};
  options.now = [&clock] { return clock; };
  return options;
}

/// The least score over everything that the search may choose, on one and two mesh dims.
double least(double memory_limit) {
  double best = 1e9;
  for (std::int64_t first : {1, 2, 4, 8, 16})
    for (int mapping = 0; mapping < 27; ++mapping)
      for (std::int64_t micro : {1, 2, 4}) {
        plan::Candidate choice;
        choice.mesh = MeshShape({{"data", first}, {"model", 16 / first}});
        choice.micro_batches = micro;
        std::vector<Layout::Rule> rules;
        int rest = mapping;
        for (const char* dim : {"batch", "h", "v"}) {
          if (rest % 3 > 0) rules.emplace_back(dim, rest % 3 == 1 ? "data" : "model");
          rest /= 3;
        }
        choice.layout = Layout(rules);
        const auto to = [&](const char* dim) { return choice.layout.mesh_dim_of(dim); };
        if (to("batch") && (to("batch") == to("h") || to("batch") == to("v"))) continue;
        const auto evaluation = *evaluate(choice);
        if (memory_limit == 0 || static_cast<double>(evaluation.bytes) <= memory_limit)
          best = std::min(best, evaluation.predicted.step);
      }
  return best;
}

}  // namespace

TEST_CASE("dims that share a tensor conflict") {
  const Model model;
  const plan::DimConflicts dims(model.variables, {&model.graph});
  CHECK(dims.dims() == std::vector<std::string>{"h", "v", "batch", "d"});
  CHECK(dims.conflict("batch", "h"));
  CHECK_FALSE(dims.conflict("h", "v"));
}

TEST_CASE("the search finds what an exhaustive look finds, under the limit of memory") {
  const Model model;
  const plan::DimConflicts dims(model.variables, {&model.graph});
  double clock = 0;
  auto wanted = options(clock);
  for (double limit : {0.0, 7e6, 3e6}) {
    wanted.memory_limit = limit;
    const auto result = plan::search(dims, wanted, evaluate);
    REQUIRE(result.finished);
    REQUIRE(result.best.size() == 5);
    CHECK(result.best[0].evaluation.predicted.step == Approx(least(limit)));
    if (limit > 0) CHECK(static_cast<double>(result.best[0].evaluation.bytes) <= limit);
    for (std::size_t i = 1; i < result.best.size(); ++i) CHECK(!result.best[i].reason.empty());
  }
}

TEST_CASE("the search ends at its time limit, no worse than where it began") {
  const Model model;
  const plan::DimConflicts dims(model.variables, {&model.graph});
  double clock = 0;
  auto wanted = options(clock);
  wanted.time_limit = 10;
  plan::Candidate deck;
  deck.mesh = MeshShape({{"data", 4}, {"model", 4}});
  deck.layout = Layout::parse("batch:data, h:model");
  wanted.seeds = {deck};
  std::int64_t calls = 0;
  const auto result = plan::search(dims, wanted, [&](const plan::Candidate& choice) {
    ++calls;
    clock += 3;
    return evaluate(choice);
  });
  CHECK_FALSE(result.finished);
  CHECK(calls <= 4);
  CHECK(result.best[0].evaluation.predicted.step <= evaluate(deck)->predicted.step);
}

TEST_CASE("the objective of memory looks at memory alone") {
  const Model model;
  const plan::DimConflicts dims(model.variables, {&model.graph});
  double clock = 0;
  auto wanted = options(clock);
  wanted.objective = plan::Objective::memory;
  wanted.micro_batches = {1};
  const auto result = plan::search(dims, wanted, evaluate);
  CHECK(ways(result.best[0].candidate, "h") == 16);
  CHECK(ways(result.best[0].candidate, "v") == 16);
}

TEST_CASE("illegal candidates are passed over") {
  const Model model;
  const plan::DimConflicts dims(model.variables, {&model.graph});
  double clock = 0;
  const auto result = plan::search(dims, options(clock), [](const plan::Candidate& choice) {
    return choice.layout.mesh_dim_of("d") ? std::nullopt : evaluate(choice);
  });
  for (const auto& found : result.best) CHECK_FALSE(found.candidate.layout.mesh_dim_of("d"));
}
