// SPDX-License-Identifier: BSD-3-Clause
// A layer of experts against plain loops over tokens, and its gradients against finite differences,
// on many meshes.
#include "tessera/nn/moe.hpp"
#include "support/apart.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/simulated_run.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kBatch = 3, kLength = 12, kWidth = 4, kHidden = 3;

std::size_t offset(std::initializer_list<std::int64_t> index,
                   std::initializer_list<std::int64_t> extents) {
  std::int64_t at = 0;
  auto extent = extents.begin();
  for (std::int64_t i : index) at = at * *extent++ + i;
  return static_cast<std::size_t>(at);
}

/// The layer in plain loops. Values: x, gate, up, up_bias none, down.
class Reference {
 public:
  Reference(const nn::MoeConfig& config, const Values& values) : config_(config), values_(values) {}

  /// The result, then balance and z-loss as one number.
  std::vector<double> run() {
    y_.assign(static_cast<std::size_t>(kBatch * kLength * kWidth), 0);
    shares_.assign(static_cast<std::size_t>(config_.experts), 0);
    means_ = shares_;
    const std::int64_t group = config_.group > 0 ? config_.group : kLength;
    for (std::int64_t b = 0; b < kBatch; ++b)
      for (std::int64_t first = 0; first < kLength; first += group) run_group(b, first, group);
    constexpr double kTokens = kBatch * kLength;
    double loss = config_.z_loss * squares_ / kTokens;
    for (std::size_t e = 0; e < shares_.size(); ++e)
      loss += config_.balance * static_cast<double>(config_.experts) * shares_[e] / kTokens *
              means_[e] / kTokens;
    y_.push_back(loss);
    return y_;
  }
  int dropped = 0;
  std::vector<int> used;  ///< tokens of each expert

 private:
  void run_group(std::int64_t b, std::int64_t first, std::int64_t group) {
    std::vector<std::vector<double>> gates;
    std::vector<std::int64_t> taken(static_cast<std::size_t>(config_.experts));
    used.resize(taken.size());
    for (std::int64_t t = first; t < first + group; ++t) gates.push_back(probabilities(b, t));
    const std::int64_t places = config_.places(group, true);
    for (int choice = 0; choice < config_.choices; ++choice)
      for (std::int64_t t = 0; t < group; ++t) {
        const auto& p = gates[static_cast<std::size_t>(t)];
        const auto best =
            static_cast<std::size_t>(std::max_element(p.begin(), p.end()) - p.begin());
        std::vector<double> others = p;
        others[best] = -1;
        const auto second = static_cast<std::size_t>(
            std::max_element(others.begin(), others.end()) - others.begin());
        const std::size_t expert = choice == 0 ? best : second;
        if (choice == 0) shares_[best] += 1;
        if (taken[expert]++ >= places) {
          ++dropped;
          continue;
        }
        ++used[expert];
        const double weight = config_.choices == 1 ? p[best] : p[expert] / (p[best] + p[second]);
        add_expert(b, first + t, static_cast<std::int64_t>(expert), weight);
      }
  }

  double x(std::int64_t b, std::int64_t t, std::int64_t d) const {
    return values_.at("x")[offset({b, t, d}, {kBatch, kLength, kWidth})];
  }

  std::vector<double> probabilities(std::int64_t b, std::int64_t t) {
    std::vector<double> p;
    double sum = 0;
    for (std::int64_t e = 0; e < config_.experts; ++e) {
      double logit = 0;
      for (std::int64_t d = 0; d < kWidth; ++d)
        logit += x(b, t, d) * values_.at("gate")[offset({d, e}, {kWidth, config_.experts})];
      p.push_back(std::exp(logit));
      sum += p.back();
    }
    for (std::size_t e = 0; e < p.size(); ++e) {
      p[e] /= sum;
      means_[e] += p[e];
    }
    squares_ += std::log(sum) * std::log(sum);
    return p;
  }

  void add_expert(std::int64_t b, std::int64_t t, std::int64_t e, double weight) {
    for (std::int64_t h = 0; h < kHidden; ++h) {
      double up = 0;
      for (std::int64_t d = 0; d < kWidth; ++d)
        up += x(b, t, d) * values_.at("up")[offset({e, d, h}, {0, kWidth, kHidden})];
      up = up / (1 + std::exp(-up));
      for (std::int64_t d = 0; d < kWidth; ++d)
        y_[offset({b, t, d}, {kBatch, kLength, kWidth})] +=
            weight * up * values_.at("down")[offset({e, h, d}, {0, kHidden, kWidth})];
    }
  }

  const nn::MoeConfig& config_;
  const Values& values_;
  std::vector<double> y_, shares_, means_;
  double squares_ = 0;
};

const char* const kNames[] = {"x", "gate", "up", "down"};

struct Layer {
  VariableSet variables;
  Graph graph{"op", variables};

  explicit Layer(const nn::MoeConfig& config) {
    const Tensor x =
        graph.input("x", {{{"batch", kBatch}, {"length", kLength}, {"d", kWidth}}, DType::f64});
    const auto out = nn::moe(x, "d", {"hidden", kHidden}, config,
                             {.feed_forward = {.activation = nn::Activation::silu, .bias = true}});
    graph.fetch("y", out.value);
    graph.fetch("gates", out.loss);
    const Tensor weights = graph.input("weights", out.value.spec());
    const Tensor loss =
        ops::add(ops::reduce_sum(ops::multiply(out.value, weights), Shape{}), out.loss);
    const auto slopes =
        gradients(loss, {x, graph.read("gate"), graph.read("up"), graph.read("down")});
    for (std::size_t i = 0; i < 4; ++i) graph.fetch(std::string("d_") + kNames[i], slopes[i]);
  }
};

Values random_values(const nn::MoeConfig& config) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  Values values;
  const auto draw = [&](const char* name, std::int64_t size) {
    for (std::int64_t i = 0; i < size; ++i) values[name].push_back(normal(random));
  };
  draw("x", kBatch * kLength * kWidth);
  draw("weights", kBatch * kLength * kWidth);
  draw("gate", kWidth * config.experts);
  draw("up", config.experts * kWidth * kHidden);
  draw("down", config.experts * kHidden * kWidth);
  draw("up_bias", config.experts * kHidden);
  return values;
}

/// Makes most tokens want expert 0.
void crowd(Values& values) {
  for (std::size_t t = 0; t < kBatch * kLength; ++t) values["x"][t * kWidth] = 1;
  values["gate"][0] += 3;
}

double objective(const nn::MoeConfig& config, const Values& values) {
  const auto y = Reference(config, values).run();
  double sum = y.back();
  for (std::size_t i = 0; i + 1 < y.size(); ++i) sum += y[i] * values.at("weights")[i];
  return sum;
}

/// Results by name from the reference and central differences of it.
Values expected_results(const nn::MoeConfig& config, const Values& values) {
  Values expected;
  Reference reference(config, values);
  expected["y"] = reference.run();
  expected["gates"] = {expected["y"].back()};
  expected["y"].pop_back();
  CHECK(reference.dropped > 0);
  constexpr double kStep = 1e-6;
  for (const char* name : kNames) {
    Values moved = values;
    for (std::size_t i = 0; i < values.at(name).size(); ++i) {
      const double value = values.at(name)[i];
      moved[name][i] = value + kStep;
      const double above = objective(config, moved);
      moved[name][i] = value - kStep;
      const double below = objective(config, moved);
      moved[name][i] = value;
      expected[std::string("d_") + name].push_back((above - below) / (2 * kStep));
    }
  }
  return expected;
}

struct Place {
  const char* mesh;
  const char* rules;
};

void check_layer(const nn::MoeConfig& config, const Values& values,
                 const std::vector<Place>& places) {
  const Values expected = expected_results(config, values);
  const Layer layer(config);
  for (const Place& place : places) {
    plan::PlanOptions options;
    options.mesh = MeshShape::parse(place.mesh, 0);
    options.layout = Layout::parse(place.rules);
    SimulatedRun run(layer.variables, {&layer.graph}, options);
    for (const char* name : {"gate", "up", "down"}) run.set_variable(name, values.at(name));
    run.run("op", values);
    INFO(place.mesh << " under " << place.rules);
    for (const auto& [name, wanted] : expected) {
      INFO(name);
      const auto found = run.fetch("op", name);
      REQUIRE(found.size() == wanted.size());
      double worst = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        const double difference = std::abs(found[i] - wanted[i]);
        worst = test::worse(worst, difference);
      }
      CHECK(worst < (name[0] == 'd' ? 1e-7 : 1e-12));
    }
  }
}

const std::vector<Place> kPlaces{
    {"", ""},
    {"a:2", "batch:a,experts:a"},
    {"a:2", "batch:a,expert_batch:a"},
    {"a:4", "batch:a,experts:a"},
    {"a:8", "batch:a,experts:a"},
    {"a:3", "batch:a,hidden:a"},
    {"a:3", "experts:a"},
    {"a:2", "hidden:a"},
    {"a:2", "gate:a"},
    {"a:2,b:2", "batch:a,experts:a,hidden:b"},
    {"a:2,b:3", "batch:a,experts:b"},
    {"a:2,b:2", "batch:a,groups:b,expert_groups:b,experts:a"},
    {"a:2,b:2", "length:b,groups:b,experts:b"},
};

}  // namespace

TEST_CASE("one expert for each token, some of which find no place") {
  nn::MoeConfig config;
  config.experts = 5;
  config.capacity = 0.5;
  config.z_loss = 0.1;
  config.balance = 0.2;
  check_layer(config, random_values(config), kPlaces);
  config.group = 6;
  Values values = random_values(config);
  crowd(values);
  check_layer(config, values, kPlaces);
}

TEST_CASE("two experts for each token") {
  nn::MoeConfig config;
  config.experts = 4;
  config.choices = 2;
  config.group = 6;
  config.capacity = 0.5;
  check_layer(config, random_values(config), kPlaces);
}

TEST_CASE("a grid of experts over two mesh dims") {
  nn::MoeConfig config;
  config.experts = 6;
  config.outer = 2;
  config.group = 6;
  config.z_loss = 0.1;
  config.capacity = 0.5;
  Values values = random_values(config);
  crowd(values);
  check_layer(config, values,
              {{"", ""},
               {"a:2,b:2", "batch:a,groups:b,experts_outer:a,experts:b"},
               {"a:2,b:3", "batch:a,groups:b,experts_outer:a,experts:b"},
               {"a:2,b:2", "batch:a,experts_outer:a,experts:b"},
               {"a:2", "batch:a,experts:a"}});
}

TEST_CASE("an expert without tokens is no special case") {
  nn::MoeConfig config;
  config.experts = 3;
  config.capacity = 0.5;
  Values values = random_values(config);
  // Nothing is ever best at expert 1.
  for (std::int64_t d = 0; d < kWidth; ++d)
    values["gate"][offset({d, 1}, {kWidth, 3})] = (values["gate"][offset({d, 0}, {kWidth, 3})] +
                                                   values["gate"][offset({d, 2}, {kWidth, 3})]) /
                                                  2;
  Reference reference(config, values);
  reference.run();
  REQUIRE(reference.used[1] == 0);
  check_layer(config, values, kPlaces);
}

TEST_CASE("what the gate cannot do is said with its keys") {
  nn::MoeConfig config;
  config.experts = 4;
  config.group = 5;
  const std::string group = message_of([&] { Layer{config}; });
  CHECK(contains(group, "model.moe.group = 5"));
  CHECK(contains(group, "12 tokens"));
  config.outer = 3;
  CHECK(contains(message_of([&] { nn::validate(config); }), "model.moe.outer = 3"));
  config.choices = 5;
  CHECK(contains(message_of([&] { nn::validate(config); }), "model.moe.choices = 5"));
}

TEST_CASE("a decoding step leaves no token out, however many want one expert") {
  nn::MoeConfig config;
  config.experts = 3;
  config.eval_capacity = 0;
  constexpr std::int64_t kBeam = 9;  // more than an expert's fewest places
  VariableSet variables;
  Graph graph("op", variables);
  const auto layer = [&](Tensor x, bool is_step) {
    return nn::moe(x, "d", {"hidden", kHidden}, config,
                   {.feed_forward = {.activation = nn::Activation::silu, .bias = false},
                    .train = false,
                    .is_step = is_step})
        .value;
  };
  // All hypotheses of a text are alike, so they all want the same expert.
  const Shape texts{{"batch", kBatch}, {"d", kWidth}};
  const Tensor x = graph.input("x", {texts, DType::f64});
  const Shape beams{texts[0], {"beam", kBeam}, texts[1]};
  const Tensor all = ops::broadcast(x, beams);
  graph.fetch("one", layer(x, true));
  graph.fetch("all", layer(all, true));
  graph.fetch("row", layer(ops::rename(all, "beam", "length"), false));
  SimulatedRun run(variables, {&graph}, {});
  run.executor().initialize(5);
  std::mt19937 random(2);
  std::normal_distribution<double> normal;
  Values values;
  for (std::int64_t i = 0; i < texts.size(); ++i) values["x"].push_back(normal(random));
  run.run("op", values);
  const auto one = run.fetch("op", "one"), found = run.fetch("op", "all"),
             row = run.fetch("op", "row");
  for (std::int64_t b = 0; b < kBatch; ++b)
    for (std::int64_t t = 0; t < kBeam; ++t)
      for (std::int64_t d = 0; d < kWidth; ++d) {
        const double expected = one[offset({b, d}, {kBatch, kWidth})];
        CHECK(std::abs(expected) > 1e-9);
        const auto at = offset({b, t, d}, {kBatch, kBeam, kWidth});
        CHECK(found[at] == Approx(expected));
        // As tokens of a row they share the four places that there are.
        CHECK(row[at] == Approx(t < 4 ? expected : 0));
      }
}
