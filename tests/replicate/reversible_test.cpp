// SPDX-License-Identifier: BSD-3-Clause
// A model of reversible residual blocks with a gradient of its own trains, however a step is cut
// and whatever is computed again, like the same model on one rank that has neither.
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/apart.hpp"
#include "support/catch.hpp"
#include "support/small_training.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/dropout.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/embedding.hpp"
#include "tessera/ops/softmax_cross_entropy.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

const Dim kVocab{"vocab", 11}, kWidth{"d_model", 6};

enum class Form {
  kept,  ///< residual blocks that keep what they compute, gradients of ordinary operations
  back,  ///< blocks computed back, and Graph::custom_gradient
};

class TwoStreams : public replicate::Model {
 public:
  explicit TwoStreams(Form form) : form_(form) {}

  void describe(config::Schema&) override {}
  std::int64_t vocab() const override { return kVocab.size; }
  Tensor loss(Graph& graph, const replicate::Batch& batch) override;

 private:
  /// tanh(x), through which a quarter of the gradient passes.
  Tensor damped(Tensor x) const;
  Graph::Halves block(Graph::Halves x, const std::string& name,
                      const replicate::Batch& batch) const;

  Form form_;
};

Tensor TwoStreams::damped(Tensor x) const {
  constexpr double kShare = 0.25;
  if (form_ == Form::kept) {
    const Tensor y = ops::tanh(x);
    return ops::add(ops::multiply(y, kShare), ops::stop_gradient(ops::multiply(y, 1 - kShare)));
  }
  return x.graph().custom_gradient(
      {x}, [&] { return std::vector<Tensor>{ops::tanh(x)}; },
      [](std::span<const Tensor>, std::span<const Tensor> outputs, std::span<const Tensor> slopes) {
        const Tensor slope = ops::add(ops::negate(ops::square(outputs[0])), 1.0);
        return std::vector<Tensor>{ops::multiply(ops::multiply(slopes[0], slope), kShare)};
      })[0];
}

Graph::Halves TwoStreams::block(Graph::Halves x, const std::string& name,
                                const replicate::Batch& batch) const {
  Graph& graph = x.first.graph();
  const Graph::Scope scope(graph, name);
  const auto f = [&](Tensor t) {
    const Graph::Scope part(graph, "attention");
    const Tensor before = nn::norm(t, "d_model", nn::Norm::rms, false, 1e-5, "norm");
    return nn::self_attention(before, "d_model", {.heads = 3, .d_kv = 2}).value;
  };
  const auto g = [&](Tensor t) {
    const Graph::Scope part(graph, "ffn");
    const auto branch = nn::feed_forward(damped(t), "d_model", {"d_ff", 7}, {.bias = true});
    return ops::dropout(ops::add(branch.value, branch.bias),
                        {.rate = batch.mode == replicate::Mode::train ? 0.2 : 0,
                         .seed = batch.seed,
                         .batch_total = batch.total_rows});
  };
  if (form_ == Form::back) return graph.reversible(x, f, g);
  const Tensor first = ops::add(x.first, f(x.second));
  return {first, ops::add(x.second, g(first))};
}

Tensor TwoStreams::loss(Graph& graph, const replicate::Batch& batch) {
  const Tensor table =
      nn::weight(graph, "table", {kVocab, kWidth}, batch.dtype, Initializer::normal(1));
  Graph::Halves x;
  {
    const Graph::Region region(graph, "front");
    const Tensor embedded = ops::embedding(table, batch["tokens"]);
    x = {embedded, damped(embedded)};
  }
  x = block(x, "block_0", batch);
  {
    // Computed again as a whole, and of it the block computed back.
    const Graph::Region region(graph, "middle");
    x = block({damped(x.second), x.first}, "block_1", batch);
    x.first = ops::tanh(x.first);
  }
  x = block(x, "block_2", batch);
  const Tensor y =
      nn::norm(ops::add(x.first, x.second), "d_model", nn::Norm::layer, true, 1e-5, "norm");
  const Tensor logits = nn::dense(y, {"d_model"}, {kVocab}, {.name = "output"});
  return nn::weighted_sum(ops::softmax_cross_entropy(logits, batch["targets"], {}),
                          batch["weights"]);
}

SmallTraining make_training(Form form, std::int64_t micro_batches,
                            std::vector<std::string> recompute) {
  optim::OptimConfig optim;
  optim.lr = 0.01;
  optim.clip_norm = 0.5;
  replicate::TaskConfig task;
  task.batch = SmallTraining::kBatch;
  task.dtype = DType::f64;
  task.micro_batches = micro_batches;
  task.recompute = std::move(recompute);
  return SmallTraining(std::make_unique<TwoStreams>(form), optim, task);
}

/// Losses and gradient norms of four steps, then some weights.
std::vector<double> train(const SmallTraining& training, const plan::PlanOptions& options) {
  SimulatedRun run(training.task().variables(), training.task().graphs(), options);
  auto curve = training.run(run.executor(), 4);
  for (const char* name : {"table", "block_0/attention/query", "block_1/ffn/up", "block_2/ffn/down",
                           "block_1/attention/norm/scale"}) {
    const auto values = run.variable(name);
    curve.insert(curve.end(), values.begin(), values.end());
  }
  return curve;
}

}  // namespace

TEST_CASE("reversible blocks and a gradient of one's own train alike however a step is cut") {
  struct Case {
    const char* mesh;
    const char* rules;
    const char* shard;
    const char* store;
  };
  const char* const both = "batch:batch,vocab:model,d_ff:model,heads:model";
  const Case cases[] = {{"", "", "", ""},
                        {"batch:2", "batch:batch", "", ""},
                        {"batch:2", "batch:batch", "batch", ""},
                        {"batch:2", "batch:batch", "", "batch"},
                        {"batch:2", "batch:batch", "batch", "batch"},
                        {"batch:2,model:2", both, "", ""},
                        {"batch:2,model:2", both, "batch", ""},
                        {"batch:2,model:2", both, "", "batch"},
                        {"batch:2,model:2", both, "model", "batch"}};
  const auto expected = train(make_training(Form::kept, 1, {}), {});
  for (const bool again : {false, true}) {
    std::vector<std::string> regions;
    if (again) regions.push_back("*");
    const SmallTraining cut = make_training(Form::back, 2, regions);
    for (const Case& c : cases) {
      INFO(c.mesh << " shard '" << c.shard << "' store '" << c.store << "' again " << again);
      const auto options = SmallTraining::options(c.mesh, c.rules, c.shard, c.store);
      CHECK(apart(train(cut, options), expected) < 1e-9);
    }
  }
}

TEST_CASE("blocks are computed back, and regions computed again") {
  const auto flops = [](Form form, std::vector<std::string> recompute) {
    const auto program = make_training(form, 2, std::move(recompute)).compile(plan::PlanOptions{});
    return program.section("micro").flops;
  };
  const double kept = flops(Form::kept, {}), back = flops(Form::back, {});
  CHECK(kept < back);
  CHECK(back < flops(Form::back, {"*"}));
}
