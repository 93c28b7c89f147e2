// SPDX-License-Identifier: BSD-3-Clause
// Steps of several updates: what each of them sees, against the same numbers in plain loops.
#include <array>

#include "data/writer.hpp"
#include "tessera/nn/follow.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/ops/elementwise.hpp"
#include "train/deck_run.hpp"

using namespace tessera;

namespace {

const char* const kDeck = R"(
[model]
name = pair
[data]
source = arrays
path = numbers.h5
validation = numbers.h5
batch = 4
[optim]
name = sgd
momentum = 0
lr = 0.05
[train]
steps = 6
dtype = f64
[layout]
rules = batch:batch
)";

constexpr double kStart = 0.3;
constexpr std::array<float, 4> kNumbers{0.5F, -1, 2, 0.25F};

/// Critic a goes towards x t by two updates a step, actor b towards a x by one on the critic's
/// second batch, and t, a copy of b, follows b.
class Pair final : public replicate::Model {
 public:
  void describe(config::Schema&) override {}
  std::vector<replicate::InputSpec> inputs(std::int64_t rows, std::int64_t) const override {
    const Shape batch{{"batch", rows}};
    return {{"x", {batch, DType::f32}}, {"weights", {batch, DType::f32}}};
  }
  std::vector<replicate::Phase> phases() const override {
    return {{.name = "critic",
             .weights = {"a"},
             .runs = 2,
             .adjust = [](optim::OptimConfig& optim) { optim.lr *= 2; }},
            {.name = "actor", .weights = {"b*"}, .fresh_batch = false}};
  }
  Tensor loss(Graph& graph, const replicate::Batch& batch) override {
    const Tensor x = ops::cast(batch["x"], batch.dtype);
    const Tensor a = scalar(graph, "a", Initializer::constant(kStart)),
                 b = scalar(graph, "b", Initializer::normal(1)), t = target(graph);
    replicate::add_metric(graph, "b",
                          nn::weighted_sum(ops::add(ops::multiply(x, 0.0), b), batch["weights"]));
    if (batch.phase == "actor") return mean_square(ops::multiply(a, x), b, batch);
    return mean_square(ops::multiply(t, x), a, batch);
  }
  void finish(Graph& graph) override { nn::follow(graph, "target", 0.25); }

 private:
  static Tensor scalar(Graph& graph, const std::string& name, Initializer initializer) {
    Variable variable;
    variable.name = name;
    variable.spec.dtype = DType::f64;
    variable.initializer = initializer;
    return graph.variable(variable);
  }
  static Tensor target(Graph& graph) {
    const Graph::Copy copy(graph, "target");
    return scalar(graph, "b", Initializer::normal(1));
  }
  static Tensor mean_square(Tensor x, Tensor center, const replicate::Batch& batch) {
    return nn::weighted_sum(ops::square(ops::subtract(x, center)), batch["weights"]);
  }
};

struct Losses {
  std::vector<double> critic, actor;
};

/// `start`: of a and b; t begins as b.
Losses expected(double a, double b) {
  constexpr double kRate = 0.1;
  const auto mean = [](const auto& f) {
    double sum = 0;
    for (double x : kNumbers) sum += f(x);
    return sum / static_cast<double>(kNumbers.size());
  };
  double t = b;
  Losses losses;
  for (int step = 0; step < 6; ++step) {
    double loss = 0;
    for (int run = 0; run < 2; ++run) {
      loss = mean([&](double x) { return (t * x - a) * (t * x - a); });
      a -= kRate * mean([&](double x) { return 2 * (a - t * x); });
    }
    losses.critic.push_back(loss);
    losses.actor.push_back(mean([&](double x) { return (a * x - b) * (a * x - b); }));
    b -= 0.5 * kRate * mean([&](double x) { return 2 * (b - a * x); });
    t = 0.75 * t + 0.25 * b;
  }
  return losses;
}

}  // namespace

TEST_CASE("Updates of a step follow one another, each with its own weights, optimizer and runs") {
  test::DeckRun deck(kDeck);
  deck.add_model("pair", [] { return std::make_unique<Pair>(); });
  test::Writer writer(deck.path("numbers.h5"));
  writer.add("/train/x", {4}, std::vector<float>(kNumbers.begin(), kNumbers.end()),
             io::ElementType::Kind::floating);
  writer.add("/validation/x", {4}, std::vector<float>(kNumbers.begin(), kNumbers.end()),
             io::ElementType::Kind::floating);
  writer.write();
  const auto mesh = GENERATE(as<std::string>(), "batch:1", "batch:2", "batch:3");
  const auto micro_batches = GENERATE(as<std::string>(), "1", "2");
  INFO(mesh << ", micro-batches " << micro_batches);
  deck.train("run", mesh, {"--train.micro_batches=" + micro_batches});
  const double b = deck.values("run", "critic/b").at(0);
  const auto critic = deck.values("run", "critic/loss"), actor = deck.values("run", "actor/loss");
  REQUIRE(critic.size() == 6);
  const Losses losses = expected(kStart, b);
  for (std::size_t step = 0; step < 6; ++step) {
    CHECK(critic[step] == Approx(losses.critic[step]).epsilon(1e-12));
    CHECK(actor[step] == Approx(losses.actor[step]).epsilon(1e-12));
  }
  CHECK(deck.values("run", "lr") == std::vector<double>(6, 0.1));  // the first update's
  CHECK(deck.values("run", "samples").back() == 6 * 2 * 4);
}
