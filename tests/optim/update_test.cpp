// SPDX-License-Identifier: BSD-3-Clause
// Optimizers against their formulas in plain loops, on one rank and on meshes, with partial
// gradients and with optimizer state cut over the data-parallel dim.
#include "tessera/optim/update.hpp"

#include <cmath>
#include <random>

#include "support/catch.hpp"
#include "support/simulated_run.hpp"
#include "tessera/ops/reduce.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr std::int64_t kRows = 7, kColumns = 5, kParts = 2;
using Vector = std::vector<double>;

/// A matrix w and a vector b (no decay) with given gradients, each the sum of two parts.
class Trainer {
 public:
  Trainer(const optim::OptimConfig& config, const plan::PlanOptions& options) {
    declare("w", Shape{{"rows", kRows}, {"columns", kColumns}}, true);
    declare("b", Shape{{"rows", kRows}}, false);
    optim::build_update(update_, config);
    run_ = std::make_unique<SimulatedRun>(variables_, std::vector<const Graph*>{&micro_, &update_},
                                          options);
    run_->executor().initialize(3);
  }

  SimulatedRun& run() { return *run_; }

  /// One step with these gradients; false if they were not finite.
  bool step(const Vector& w, const Vector& b, std::int64_t step, double lr) {
    kernels::Feeds feeds;
    feeds.step = step;
    run_->run("micro", {{"g_w", parts(w)}, {"g_b", parts(b)}}, feeds);
    feeds.values = {{"lr", lr}, {"step", static_cast<double>(step)}};
    run_->run("update", {}, feeds);
    return run_->fetch("update", "finite")[0] == 1;
  }

 private:
  void declare(const std::string& name, const Shape& shape, bool decay) {
    const Variable weight{
        name, {shape, DType::f64}, Variable::Kind::weight, Initializer::normal(1), decay, true, "",
        ""};
    variables_.declare(weight);
    std::vector<Dim> dims = shape.dims();
    dims.insert(dims.begin(), {"parts", kParts});
    const Tensor g = micro_.input("g_" + name, {Shape(dims), DType::f64});
    Variable gradient = weight;
    gradient.name = optim::gradient_name(name);
    gradient.kind = Variable::Kind::gradient;
    gradient.of = name;
    variables_.declare(gradient);
    micro_.accumulate(gradient.name, ops::reduce_sum(g, shape), true);
  }

  static Vector parts(const Vector& sum) {
    Vector both;
    for (double x : sum) both.push_back(0.25 * x);
    for (double x : sum) both.push_back(0.75 * x);
    return both;
  }

  VariableSet variables_;
  Graph micro_{"micro", variables_};
  Graph update_{"update", variables_};
  std::unique_ptr<SimulatedRun> run_;
};

plan::PlanOptions options(const char* mesh, const char* rules, const char* shard = "") {
  plan::PlanOptions options;
  options.mesh = MeshShape::parse(mesh, 0);
  options.layout = Layout::parse(rules);
  options.shard = shard;
  return options;
}

const std::vector<plan::PlanOptions>& placements() {
  static const std::vector<plan::PlanOptions> all = {
      {},
      options("batch:2", "parts:batch"),
      options("batch:2", "parts:batch", "batch"),
      options("batch:3", "parts:batch", "batch"),
      options("model:2", "rows:model"),
      options("batch:2,model:2", "parts:batch,columns:model"),
      options("batch:2,model:3", "parts:batch,rows:model", "batch"),
  };
  return all;
}

Vector random_vector(std::int64_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Vector values(static_cast<std::size_t>(size));
  for (double& value : values) value = normal(random);
  return values;
}

double worst(const Vector& a, const Vector& b) {
  REQUIRE(a.size() == b.size());
  double result = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    result = std::isnan(difference) ? INFINITY : std::max(result, difference);
  }
  return result;
}

/// Runs four steps in every placement beside a reference that updates w and b in place.
template <class MakeReference>
void compare(const optim::OptimConfig& config, const MakeReference& make_reference) {
  for (const auto& placement : placements()) {
    INFO(placement.mesh.to_string()
         << " " << placement.layout.to_string() << " shard " << placement.shard);
    Trainer trainer(config, placement);
    Vector w = trainer.run().variable("w"), b = trainer.run().variable("b");
    auto reference = make_reference();
    for (int step = 1; step <= 4; ++step) {
      const Vector gw = random_vector(kRows * kColumns, 10u + static_cast<unsigned>(step));
      const Vector gb = random_vector(kRows, 20u + static_cast<unsigned>(step));
      const double lr = 0.1 / step;
      REQUIRE(trainer.step(gw, gb, step, lr));
      reference(w, b, gw, gb, step, lr);
      CHECK(worst(trainer.run().variable("w"), w) < 1e-12);
      CHECK(worst(trainer.run().variable("b"), b) < 1e-12);
      double squares = 0;
      for (double g : gw) squares += g * g;
      for (double g : gb) squares += g * g;
      CHECK(trainer.run().fetch("update", "grad_norm")[0] == Approx(std::sqrt(squares)));
    }
  }
}

}  // namespace

TEST_CASE("sgd with decay of weights but not of biases, clipped by the norm of all gradients") {
  optim::OptimConfig config;
  config.name = "sgd";
  config.weight_decay = 0.3;
  config.clip_norm = 2;
  compare(config, [] {
    return [](Vector& w, Vector& b, const Vector& gw, const Vector& gb, int, double lr) {
      double squares = 0;
      for (double g : gw) squares += g * g;
      for (double g : gb) squares += g * g;
      const double factor = std::min(1.0, 2 / std::sqrt(squares));
      for (std::size_t i = 0; i < w.size(); ++i) w[i] -= lr * (factor * gw[i] + 0.3 * w[i]);
      for (std::size_t i = 0; i < b.size(); ++i) b[i] -= lr * factor * gb[i];
    };
  });
}

TEST_CASE("momentum, plain and Nesterov's") {
  for (bool nesterov : {false, true}) {
    optim::OptimConfig config;
    config.name = "momentum";
    config.momentum = 0.8;
    config.nesterov = nesterov;
    compare(config, [nesterov] {
      return [nesterov, vw = Vector(), vb = Vector()](Vector& w, Vector& b, const Vector& gw,
                                                      const Vector& gb, int, double lr) mutable {
        const auto update = [&](Vector& x, Vector& v, const Vector& g) {
          v.resize(x.size());
          for (std::size_t i = 0; i < x.size(); ++i) {
            v[i] = 0.8 * v[i] + g[i];
            x[i] -= lr * (nesterov ? g[i] + 0.8 * v[i] : v[i]);
          }
        };
        update(w, vw, gw);
        update(b, vb, gb);
      };
    });
  }
}

TEST_CASE("adam with bias correction and decoupled decay, and the average of weights") {
  optim::OptimConfig config;
  config.name = "adamw";
  config.weight_decay = 0.2;
  config.beta1 = 0.8;
  config.beta2 = 0.95;
  config.epsilon = 1e-6;
  compare(config, [] {
    return [m = Vector(), v = Vector()](Vector& w, Vector& b, const Vector& gw, const Vector& gb,
                                        int step, double lr) mutable {
      m.resize(w.size() + b.size());
      v.resize(m.size());
      for (std::size_t i = 0; i < m.size(); ++i) {
        const bool matrix = i < w.size();
        double& x = matrix ? w[i] : b[i - w.size()];
        const double g = matrix ? gw[i] : gb[i - w.size()];
        m[i] = 0.8 * m[i] + 0.2 * g;
        v[i] = 0.95 * v[i] + 0.05 * g * g;
        const double mean = m[i] / (1 - std::pow(0.8, step));
        const double variance = v[i] / (1 - std::pow(0.95, step));
        x -= lr * (mean / (std::sqrt(variance) + 1e-6) + (matrix ? 0.2 * x : 0));
      }
    };
  });
}

namespace {

/// Adafactor of one matrix, or of one vector (columns 1, never factored).
void adafactor(Vector& x, const Vector& g, Vector& row, Vector& column, Vector& full,
               std::int64_t rows, std::int64_t columns, bool factored, int step, double lr) {
  const double decay = 1 - std::pow(step, -0.8);
  const auto mix = [&](double& old, double sample) { old = decay * old + (1 - decay) * sample; };
  row.resize(static_cast<std::size_t>(rows));
  column.resize(static_cast<std::size_t>(columns));
  full.resize(x.size());
  Vector u(x.size());
  const auto place = [&](std::int64_t r, std::int64_t c) {
    return static_cast<std::size_t>(r * columns + c);
  };
  if (factored) {
    // The larger dim (rows) is averaged away in `column`, the smaller in `row`.
    for (std::int64_t r = 0; r < rows; ++r) {
      double mean = 0;
      for (std::int64_t c = 0; c < columns; ++c)
        mean += (g[place(r, c)] * g[place(r, c)] + 1e-30) / static_cast<double>(columns);
      mix(row[static_cast<std::size_t>(r)], mean);
    }
    double mean_column = 0;
    for (std::int64_t c = 0; c < columns; ++c) {
      double mean = 0;
      for (std::int64_t r = 0; r < rows; ++r)
        mean += (g[place(r, c)] * g[place(r, c)] + 1e-30) / static_cast<double>(rows);
      mix(column[static_cast<std::size_t>(c)], mean);
      mean_column += column[static_cast<std::size_t>(c)] / static_cast<double>(columns);
    }
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        u[place(r, c)] = g[place(r, c)] /
                         std::sqrt(column[static_cast<std::size_t>(c)] / mean_column) /
                         std::sqrt(row[static_cast<std::size_t>(r)]);
  } else {
    for (std::size_t i = 0; i < x.size(); ++i) {
      mix(full[i], g[i] * g[i] + 1e-30);
      u[i] = g[i] / std::sqrt(full[i]);
    }
  }
  double rms_u = 0, rms_x = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    rms_u += u[i] * u[i] / static_cast<double>(x.size());
    rms_x += x[i] * x[i] / static_cast<double>(x.size());
  }
  const double rate = lr * std::max(1e-3, std::sqrt(rms_x));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] -= rate * u[i] / std::max(1.0, std::sqrt(rms_u));
}

}  // namespace

TEST_CASE("adafactor, factored and not") {
  for (bool factored : {true, false}) {
    optim::OptimConfig config;
    config.name = "adafactor";
    config.factored_size = factored ? 5 : 6;
    compare(config, [factored] {
      return
          [factored, row = Vector(), column = Vector(), full = Vector(), row_b = Vector(),
           column_b = Vector(), full_b = Vector()](Vector& w, Vector& b, const Vector& gw,
                                                   const Vector& gb, int step, double lr) mutable {
            adafactor(w, gw, row, column, full, kRows, kColumns, factored, step, lr);
            adafactor(b, gb, row_b, column_b, full_b, kRows, 1, false, step, lr);
          };
    });
  }
}

TEST_CASE("the average of weights starts from the initial weights") {
  optim::OptimConfig config;
  config.name = "adam";
  config.ema = 0.75;
  for (const auto& placement : placements()) {
    Trainer trainer(config, placement);
    Vector average = trainer.run().variable("w");
    for (int step = 1; step <= 3; ++step) {
      trainer.step(random_vector(kRows * kColumns, 1), random_vector(kRows, 2), step, 0.1);
      const Vector w = trainer.run().variable("w");
      for (std::size_t i = 0; i < w.size(); ++i) average[i] = 0.75 * average[i] + 0.25 * w[i];
      CHECK(worst(trainer.run().variable("ema/w"), average) < 1e-12);
    }
  }
}

TEST_CASE("one infinite element of a gradient leaves every variable as it was") {
  for (const char* name : {"sgd", "momentum", "adam", "adafactor"}) {
    optim::OptimConfig config;
    config.name = name;
    config.clip_norm = 1;
    config.ema = 0.9;
    config.factored_size = 5;
    for (const auto& placement : placements()) {
      INFO(name << " on " << placement.mesh.to_string() << " shard " << placement.shard);
      Trainer trainer(config, placement);
      const Vector gw = random_vector(kRows * kColumns, 1), gb = random_vector(kRows, 2);
      REQUIRE(trainer.step(gw, gb, 1, 0.1));
      std::map<std::string, Vector> before;
      for (const auto& stored : trainer.run().program().variables)
        if (stored.variable.kind != Variable::Kind::gradient)
          before[stored.variable.name] = trainer.run().variable(stored.variable.name);
      REQUIRE(before.size() >= 4);
      for (double bad : {std::numeric_limits<double>::infinity(), std::nan("")})
        for (std::size_t element : {std::size_t{0}, gw.size() - 1}) {
          Vector broken = gw;
          broken[element] = bad;
          CHECK_FALSE(trainer.step(broken, gb, 2, 0.1));
          for (const auto& [variable, values] : before)
            CHECK(trainer.run().variable(variable) == values);
        }
    }
  }
}
