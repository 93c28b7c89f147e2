// SPDX-License-Identifier: BSD-3-Clause
#include "probes.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "tessera/comm/simulated_collectives.hpp"
#include "tessera/models/resnet.hpp"
#include "tessera/models/transformer.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/fill.hpp"
#include "tessera/plan/planner.hpp"
#include "tessera/replicate/task.hpp"
#include "tessera/runtime/executor.hpp"

namespace tessera::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Collects the seconds of each step of a section over several runs.
class Stopwatch final : public runtime::Recorder {
 public:
  explicit Stopwatch(const program::Section& section) : times_(section.steps.size()) {}
  void begin(const std::string&, const program::Step&) override { begin_ = Clock::now(); }
  void end(const std::string&, const program::Step&) override {
    times_[next_].push_back(seconds_since(begin_));
    next_ = (next_ + 1) % times_.size();
  }
  double seconds(std::size_t step) const { return median(times_[step]); }
  /// Seconds of a run: of its steps' medians, and its mean.
  double typical() const {
    double sum = 0;
    for (std::size_t step = 0; step < times_.size(); ++step) sum += seconds(step);
    return sum;
  }
  double mean() const {
    double sum = 0;
    for (const auto& list : times_) sum += std::accumulate(list.begin(), list.end(), 0.0);
    return sum / static_cast<double>(std::max<std::size_t>(1, times_.front().size()));
  }
  void forget() {
    for (auto& list : times_) list.clear();
  }

 private:
  std::vector<std::vector<double>> times_;
  std::size_t next_ = 0;
  Clock::time_point begin_;
};

/// A training to be timed: sizes that no deck has, so that a prediction is one.
struct Probe {
  std::shared_ptr<replicate::Model> model;
  std::int64_t batch;
  std::int64_t length;
  const char* optimizer;
  DType dtype;
};

/// How far apart ids may lie: less than any probe has of words or classes.
constexpr std::int64_t kIds = 293;

models::TransformerConfig sizes(std::int64_t d_model, std::int64_t d_ff, std::int64_t heads,
                                std::int64_t vocab) {
  models::TransformerConfig config;
  config.layers = 1;
  config.d_model = d_model;
  config.d_ff = d_ff;
  config.heads = heads;
  config.vocab = vocab;
  config.max_length = 512;
  config.dropout = 0.1;
  config.label_smoothing = 0.1;
  return config;
}

/// Transformers of all norms, positions and activations.
void add_transformers(std::vector<Probe>& list) {
  struct Sizes {
    models::TransformerConfig model;
    std::int64_t batch;
    std::int64_t length;
    const char* optimizer;
    DType dtype;
  };
  const Sizes all[] = {
      {sizes(96, 320, 3, 300), 6, 96, "adam", DType::f32},
      {sizes(304, 1184, 4, 900), 4, 208, "adam", DType::f32},
      {sizes(624, 2400, 12, 9000), 2, 144, "adafactor", DType::f32},
      {sizes(208, 544, 4, 21000), 9, 40, "sgd", DType::f32},
      {sizes(1008, 3840, 14, 1800), 1, 304, "adam", DType::f32},
      {sizes(144, 96, 6, 700), 3, 448, "adam", DType::f32},
      {sizes(304, 1184, 4, 900), 4, 176, "adam", DType::bf16},
      {sizes(608, 2304, 8, 6000), 2, 112, "adafactor", DType::bf16},
      {sizes(96, 352, 3, 400), 7, 80, "adam", DType::bf16},
  };
  for (std::size_t i = 0; i < std::size(all); ++i) {
    auto model = all[i].model;
    if (i % 2 == 1) model.norm = "rms";
    if (i % 3 == 1) model.positions = "rotary";
    if (i % 3 == 2) model.activation = "relu";
    if (i % 4 == 3) model.bias = false;
    list.push_back({std::make_shared<models::Transformer>(model), all[i].batch, all[i].length,
                    all[i].optimizer, all[i].dtype});
  }
}

/// Residual nets, of bottlenecks and of plain blocks.
void add_residual_nets(std::vector<Probe>& list) {
  models::ResNetConfig large;
  large.blocks = {"1", "1", "1", "1"};
  large.height = 152, large.width = 168;
  large.filters = 48;
  large.classes = 300;
  models::ResNetConfig small = large;
  small.depth = 18;
  small.height = 72, small.width = 88;
  small.filters = 40;
  list.push_back({std::make_shared<models::ResNet>(large), 3, 1, "momentum", DType::f32});
  for (const DType dtype : {DType::f32, DType::bf16})
    list.push_back({std::make_shared<models::ResNet>(small), 5, 1, "momentum", dtype});
}

std::vector<Probe> probes() {
  std::vector<Probe> list;
  add_transformers(list);
  add_residual_nets(list);
  return list;
}

/// What is measured: medians of single steps, and what these leave out (interrupts, other processes
/// on the same cores), which a whole step meets on the average.
struct Sampled {
  std::vector<plan::Measured> steps;
  double typical = 0, mean = 0;
};

/// A program that is run on one rank and timed step by step.
class Timed {
 public:
  Timed(program::Program program, const device::Exec& exec)
      : program_(std::move(program)),
        exec_(exec),
        collectives_(program_.mesh, &exec),
        executor_(program_, collectives_, exec,
                  {.poison = false, .synchronous = !device::Exec::is_host()}) {
    executor_.initialize(1);
    for (const auto& section : program_.sections)
      for (const auto& input : section.inputs) feed(section, input);
  }

  void measure(const std::string& name, double seconds, Sampled& samples) {
    const auto& section = program_.section(name);
    if (section.steps.empty()) return;
    Stopwatch watch(section);
    executor_.set_recorder(&watch);
    kernels::Feeds feeds;
    feeds.step = 1;
    feeds.values = {{"inverse_weight", 1e-3}, {"lr", 1e-4}, {"step", 1}};
    executor_.run(name, feeds);
    watch.forget();
    constexpr int kLeast = 3, kMost = 40;
    const auto begin = Clock::now();
    for (int run = 0; run < kMost && (run < kLeast || seconds_since(begin) < seconds); ++run)
      executor_.run(name, feeds);
    executor_.set_recorder(nullptr);
    for (std::size_t i = 0; i < section.steps.size(); ++i) {
      const auto works = plan::works_of(section, section.steps[i], program_.mesh);
      if (works.size() == 1) samples.steps.push_back({works[0], watch.seconds(i)});
    }
    samples.typical += watch.typical();
    samples.mean += watch.mean();
  }

 private:
  void feed(const program::Section& section, const program::NamedBuffer& input) {
    const auto& spec = section.buffers[static_cast<std::size_t>(input.buffer)].spec;
    const auto size = static_cast<std::size_t>(spec.shape.size());
    std::vector<std::int32_t> ids(size);
    for (std::size_t i = 0; i < size; ++i) ids[i] = static_cast<std::int32_t>(i * 7919 % kIds);
    const std::vector<float> ones(size, 1.0F);
    executor_.set_input(section.name, input.name, 0,
                        spec.dtype == DType::i32 ? static_cast<const void*>(ids.data())
                                                 : static_cast<const void*>(ones.data()));
  }

  program::Program program_;
  const device::Exec& exec_;
  comm::SimulatedCollectives collectives_;
  runtime::Executor executor_;
};

/// Products of shapes that a Transformer of one rank does not have: narrow, wide, deep, many.
program::Program products(DType dtype) {
  VariableSet variables;
  Graph graph("products", variables);
  const std::int64_t shapes[][4] = {
      // batch, m, n, k
      {1, 24, 1500, 700}, {1, 1500, 24, 700},  {1, 700, 1500, 24}, {1, 448, 448, 448},
      {1, 900, 900, 900}, {1, 16, 16, 20000},  {1, 2048, 160, 80}, {20, 72, 72, 40},
      {40, 24, 120, 72},  {1, 200, 9000, 160}, {1, 64, 64, 64},    {1, 4000, 8, 250},
  };
  int number = 0;
  for (const auto& shape : shapes) {
    const Dim b{"b", shape[0]}, m{"m", shape[1]}, n{"n", shape[2]}, k{"k", shape[3]};
    const auto constant = [&](const Shape& dims) {
      return graph.add1(std::make_shared<ops::Fill>(0.5, TensorSpec{dims, dtype}), {});
    };

    graph.fetch("p" + std::to_string(number++),
                ops::einsum({constant(Shape{b, m, k}), constant(Shape{b, k, n})}, Shape{b, m, n}));
  }
  return plan::compile(variables, {&graph}, {});
}

}  // namespace

std::vector<plan::Measured> measure_work(const device::Exec& exec, double seconds,
                                         const std::function<void()>& start) {
  Sampled samples;
  const auto list = probes();
  const double share = seconds / static_cast<double>(list.size() + 2);
  for (const auto& probe : list) {
    optim::OptimConfig optim;
    optim.name = probe.optimizer;
    optim.clip_norm = 1;
    replicate::TaskConfig config;
    config.batch = probe.batch;
    config.length = probe.length;
    config.dtype = probe.dtype;
    replicate::Task task(*probe.model, optim, config);
    Timed timed(plan::compile(task.variables(), task.graphs(), {}), exec);
    start();
    timed.measure("micro", 0.8 * share, samples);
    timed.measure("update", 0.2 * share, samples);
  }
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Timed timed(products(dtype), exec);
    start();
    timed.measure("products", share, samples);
  }
  for (auto& sample : samples.steps) sample.seconds *= samples.mean / samples.typical;
  return std::move(samples.steps);
}

std::vector<plan::MeasuredCollective> measure_collectives(comm::Collectives& collectives,
                                                          const device::Exec& exec) {
  const std::int64_t ranks = collectives.mesh().size();
  std::vector<plan::MeasuredCollective> samples;
  const comm::MeshDims dims{0};
  constexpr std::int64_t kLargest = 32 << 20;
  const device::Memory send(kLargest), receive(kLargest);
  void* const to[] = {receive.data()};
  const void* const from[] = {send.data()};
  for (std::int64_t bytes : {256L, 4096L, 65536L, 524288L, 4L << 20, kLargest}) {
    const std::int64_t count = bytes / 4;
    const std::vector<std::int64_t> parts[] = {
        std::vector<std::int64_t>(static_cast<std::size_t>(ranks), count / ranks)};
    const std::int64_t whole[] = {count};
    const auto measure = [&](program::CollectiveKind kind, const std::function<void()>& call) {
      std::vector<double> times;
      const int runs = bytes < (1 << 20) ? 25 : 7;
      for (int run = 0; run < runs; ++run) {
        collectives.world().barrier();
        const auto begin = Clock::now();
        call();
        exec.fence();
        if (run > 0) times.push_back(seconds_since(begin));
      }
      const double slowest = collectives.world().max({median(times)})[0];
      samples.push_back({kind, static_cast<double>(count / ranks * ranks * 4),
                         static_cast<double>(ranks), slowest});
    };
    measure(program::CollectiveKind::all_reduce,
            [&] { collectives.all_reduce(dims, program::ReduceOp::sum, DType::f32, to, whole); });
    measure(program::CollectiveKind::reduce_scatter,
            [&] { collectives.reduce_scatter(dims, DType::f32, from, to, parts); });
    measure(program::CollectiveKind::all_gather,
            [&] { collectives.all_gather(dims, DType::f32, from, to, parts); });
    measure(program::CollectiveKind::all_to_all,
            [&] { collectives.all_to_all(dims, DType::f32, from, parts, to, parts); });
  }
  return samples;
}

}  // namespace tessera::train
