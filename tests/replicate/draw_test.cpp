// SPDX-License-Identifier: BSD-3-Clause
// Tokens drawn by the Program: distributed as they should be, and the same on every mesh.
#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.hpp"
#include "support/simulated_run.hpp"
#include "tessera/nn/draw.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

struct Mesh {
  const char* shape;
  const char* rules;
};
const Mesh kMeshes[] = {{"", ""},
                        {"b:2", "batch:b"},
                        {"m:2", "vocab:m"},
                        {"m:3", "vocab:m"},
                        {"b:2,m:2", "batch:b,vocab:m"}};

/// Tokens for `rows` equal rows of logits, the same on all meshes.
std::vector<double> tokens(const std::vector<double>& logits, std::int64_t rows,
                           const nn::DrawOptions& options, std::int64_t step = 1) {
  VariableSet variables;
  Graph graph("draw", variables);
  const Shape shape{{"batch", rows}, {"vocab", static_cast<std::int64_t>(logits.size())}};
  graph.fetch("ids", nn::draw(graph.input("logits", {shape, DType::f64}), options));
  std::vector<double> all, expected;
  for (std::int64_t row = 0; row < rows; ++row) all.insert(all.end(), logits.begin(), logits.end());
  for (const auto& mesh : kMeshes) {
    INFO(mesh.shape << " under " << mesh.rules);
    plan::PlanOptions plan;
    plan.mesh = MeshShape::parse(mesh.shape, 0);
    plan.layout = Layout::parse(mesh.rules);
    SimulatedRun run(variables, {&graph}, plan);
    run.run("draw", {{"logits", all}}, {step, 0, {}});
    const auto ids = run.fetch("draw", "ids");
    REQUIRE(ids.size() == static_cast<std::size_t>(rows));
    if (expected.empty()) expected = ids;
    CHECK(ids == expected);
  }
  return expected;
}

/// Counts are as likely as the shares say (five standard deviations).
void check_shares(const std::vector<double>& ids, const std::vector<double>& weights) {
  double total = 0;
  for (double weight : weights) total += weight;
  for (std::size_t id = 0; id < weights.size(); ++id) {
    const double p = weights[id] / total, n = static_cast<double>(ids.size());
    double count = 0;
    for (double drawn : ids) count += drawn == static_cast<double>(id);
    INFO("id " << id << " with probability " << p);
    CHECK(std::abs(count / n - p) <= 5 * std::sqrt(p * (1 - p) / n));
  }
}

}  // namespace

TEST_CASE("Temperature 0 takes the likeliest token, the lower one of equals") {
  CHECK(tokens({1, 5, 3}, 2, {.temperature = 0}) == std::vector<double>{1, 1});
  CHECK(tokens({2, 4, 2, 4, 4}, 1, {.temperature = 0}) == std::vector<double>{1});
}

TEST_CASE("Draws follow the softmax of the scaled logits, and differ from step to step") {
  const std::vector<double> logits{0.5, -1, 2, 1};
  const auto ids = tokens(logits, 20000, {.temperature = 2, .seed = 3});
  std::vector<double> weights;
  for (double logit : logits) weights.push_back(std::exp(logit / 2));
  check_shares(ids, weights);
  CHECK(tokens(logits, 50, {.seed = 3}, 1) != tokens(logits, 50, {.seed = 3}, 2));
  CHECK(tokens(logits, 50, {.seed = 3}, 1) != tokens(logits, 50, {.seed = 4}, 1));
}

TEST_CASE("top_k leaves only the likeliest tokens") {
  const auto ids = tokens({1, 0.9, 5, 4.9, 2}, 20000, {.top_k = 2, .seed = 5});
  check_shares(ids, {0, 0, std::exp(5.0), std::exp(4.9), 0});
  // More than there are: all of them.
  check_shares(tokens({0, 1}, 5000, {.top_k = 100}), {1, std::exp(1.0)});
}

TEST_CASE("Impossible tokens are never drawn") {
  const double never = -std::numeric_limits<double>::infinity();
  for (double id : tokens({never, 0, never}, 1000, {})) CHECK(id == 1);
}

TEST_CASE("The likeliest tokens with their log probabilities") {
  VariableSet variables;
  Graph graph("best", variables);
  const Shape shape{{"batch", 1}, {"vocab", 5}};
  const auto best = nn::likeliest(graph.input("logits", {shape, DType::f64}), 3);
  graph.fetch("log_probabilities", best.log_probabilities);
  graph.fetch("ids", best.ids);
  const std::vector<double> logits{1, 3, 0, 3, 2};
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit);
  for (const auto& mesh : kMeshes) {
    plan::PlanOptions plan;
    plan.mesh = MeshShape::parse(mesh.shape, 0);
    plan.layout = Layout::parse(mesh.rules);
    SimulatedRun run(variables, {&graph}, plan);
    run.run("best", {{"logits", logits}});
    CHECK(run.fetch("best", "ids") == std::vector<double>{1, 3, 4});
    const auto found = run.fetch("best", "log_probabilities");
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(found[i] == Approx((i < 2 ? 3 : 2) - std::log(sum)).epsilon(1e-12));
  }
}
