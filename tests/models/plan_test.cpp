// SPDX-License-Identifier: BSD-3-Clause
// What the Transformer's plan costs, against closed formulas of "Mesh-TensorFlow: Deep Learning for
// Supercomputers", section on Transformer layouts.
#include <map>

#include "support/catch.hpp"
#include "tessera/models/transformer.hpp"
#include "tessera/plan/planner.hpp"
#include "tessera/plan/report.hpp"
#include "tessera/replicate/task.hpp"

using namespace tessera;

namespace {

constexpr std::int64_t kBatch = 8, kLength = 128, kLayers = 3, kWidth = 64, kHidden = 128,
                       kHeads = 8, kDepth = 16, kVocab = 512;

models::TransformerConfig wide_model() {
  models::TransformerConfig config;
  config.layers = kLayers;
  config.d_model = kWidth;
  config.d_ff = kHidden;
  config.heads = kHeads;
  config.d_kv = kDepth;
  config.vocab = kVocab;
  config.max_length = kLength;
  config.norm = "rms";
  config.bias = false;
  return config;
}

struct Planned {
  models::Transformer model{wide_model()};
  replicate::TaskConfig task_config{.batch = kBatch, .length = kLength};
  optim::OptimConfig optim;
  replicate::Task task{model, optim, task_config};
  program::Program program;
  std::map<std::string, std::int64_t> bytes, calls;

  Planned(const std::string& mesh, const std::string& rules) {
    plan::PlanOptions options;
    options.mesh = MeshShape::parse(mesh, 0);
    options.layout = Layout::parse(rules);
    program = plan::compile(task.variables(), task.graphs(), options);
    for (const auto& row : plan::report(program, {{"micro", 1}, {"update", 1}}).collectives) {
      std::string key = row.section;
      for (int m : row.mesh_dims) key += " " + options.mesh[m].name;
      bytes[key + " " + program::name_of(row.op)] += row.bytes;
      calls[key + " " + program::name_of(row.op)] += row.count;
    }
  }
};

}  // namespace

TEST_CASE("data parallel: nothing but the gradients, once") {
  Planned planned("all:8", "batch:all");
  CHECK(planned.bytes.size() == 1);
  CHECK(planned.calls["update all all_reduce"] == 1);
  CHECK(planned.bytes["update all all_reduce"] == 4 * planned.task.variables().parameters());
}

TEST_CASE("data and model parallel: one reduction for each half of a block and direction") {
  constexpr std::int64_t r = 4, c = 8;
  Planned planned("rows:4,cols:8", "batch:rows,vocab:cols,d_ff:cols,heads:cols");
  const std::int64_t stream = kBatch / r * kLength * kWidth;  // elements of the residual stream
  const std::int64_t tokens = kBatch / r * kLength;
  // Embedding; attention and feed-forward, forward and backward; the loss's gradient; the loss's
  // maxima, then one bucket of its two sums.
  CHECK(planned.bytes["micro cols all_reduce"] ==
        4 * (stream * (1 + 4 * kLayers + 1) + tokens * (1 + 2)));
  CHECK(planned.calls["micro cols all_reduce"] == 1 + 4 * kLayers + 1 + 2);
  // Nothing is gathered, logits least of all.
  for (const auto& [key, bytes] : planned.bytes) {
    INFO(key << ": " << bytes);
    CHECK((!key.starts_with("micro ") || key == "micro cols all_reduce"));
  }
  const std::int64_t cut =
      2 * kVocab * kWidth + kLayers * (2 * kWidth * kHidden + 4 * kWidth * kHeads * kDepth);
  const std::int64_t whole = kLength * kWidth + (2 * kLayers + 1) * kWidth;
  CHECK(planned.bytes["update rows all_reduce"] == 4 * (cut / c + whole));
  CHECK(planned.task.variables().parameters() == cut + whole);
}

TEST_CASE("few tokens are gathered rather than the gradient of a large table reduced") {
  models::TransformerConfig large = wide_model();
  large.vocab = 100000;
  models::Transformer model(large);
  replicate::Task task(model, {}, {.batch = kBatch, .length = kLength});
  plan::PlanOptions options;
  options.mesh = MeshShape::parse("all:8", 0);
  options.layout = Layout::parse("batch:all");
  const auto program = plan::compile(task.variables(), task.graphs(), options);
  std::int64_t gathered = 0;
  for (const auto& row : plan::report(program, {{"micro", 1}}).collectives)
    if (row.op == program::CollectiveKind::all_gather) gathered += row.bytes;
  CHECK(gathered == 4 * kBatch * kLength * (kWidth + 1));  // the stream's gradient, and the ids
}

TEST_CASE("a block is few local steps") {
  Planned planned("", "");
  std::map<std::string, int> kernels;
  for (const auto& step : planned.program.section("micro").steps)
    if (const auto* kernel = std::get_if<program::KernelStep>(&step))
      if (kernel->label.find("layer_1") != std::string::npos) kernels[kernel->kernel] += 1;
  CHECK(kernels["einsum"] == 3 * 6);  // six products, each with two gradients
  CHECK(kernels["norm_forward"] == 2);
  CHECK(kernels["norm_backward"] == 2);
  CHECK(kernels["attention_forward"] == 1);
  CHECK(kernels["attention_backward"] == 1);
  // Activation and its gradient, two residual sums, sums of gradients where paths join.
  CHECK(kernels["pointwise"] <= 7);
  CHECK(kernels["reduce"] == 0);
}

TEST_CASE("Adafactor's sums over a cut model share messages, however many weights there are") {
  const auto calls = [](std::int64_t layers) {
    auto config = wide_model();
    config.layers = layers;
    models::Transformer model(config);
    optim::OptimConfig adafactor;
    adafactor.name = "adafactor";
    adafactor.factored_size = 16;
    replicate::Task task(model, adafactor, {.batch = kBatch, .length = kLength});
    plan::PlanOptions options;
    options.mesh = MeshShape::parse("cols:8", 0);
    options.layout = Layout::parse("vocab:cols,d_ff:cols,heads:cols");
    const auto program = plan::compile(task.variables(), task.graphs(), options);
    std::int64_t calls = 0;
    for (const auto& row : plan::report(program, {{"update", 1}}).collectives) calls += row.count;
    return calls;
  };
  // Squared gradients of all weights; rows, columns and squared weights; means of rows; updates.
  CHECK(calls(2) <= 5);
  CHECK(calls(7) == calls(2));
}
