// SPDX-License-Identifier: BSD-3-Clause
// Whole runs of models that are put on logical devices: a Transformer's layers, and a user's step.
#include <cmath>
#include <fstream>

#include "tessera/nn/conv.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/nn/metrics.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/dropout.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/softmax_cross_entropy.hpp"
#include "tessera/replicate/replicator.hpp"
#include "train/deck_run.hpp"

using namespace tessera;
using replicate::ReplicaContext;

namespace {

const char* const kText = R"(
[model]
layers = 3
stages = 3
d_model = 10
d_ff = 14
heads = 3
d_kv = 4
max_length = 7
dropout = 0.2
tied = true
[data]
batch = 4
length = 7
path = text.txt
validation_fraction = 0.2
[optim]
lr = 0.01
clip_norm = 0.5
schedule_steps = 6
ema = 0.9
[train]
steps = 6
micro_batches = 2
dtype = f64
[eval]
every = 3
batches = 2
[layout]
rules = batch:batch
[sample]
prompt = tile
length = 5
)";

const char* const kClassifier = R"(
[model]
name = staged
[data]
source = random
random_tokens = 60
batch = 12
[optim]
lr = 0.02
clip_norm = 1
[train]
steps = 10
dtype = f64
[eval]
every = 5
)";

constexpr std::int64_t kWidth = 5, kHidden = 6, kClasses = 3;

/// Three devices: batch norm with running statistics on the first, a vector that all three read
/// (made on none), and losses of two.
Tensor step(const ReplicaContext& context, const replicate::Batch& batch) {
  const Dim hidden{"hidden", kHidden};
  const Tensor shared =
      nn::weight(context.graph(), "shared", Shape{hidden}, batch.dtype, Initializer::constant(1));
  Tensor h, extra;
  {
    const auto device = context.logical_device(0);
    h = nn::dense(ops::cast(batch["x"], batch.dtype), {"width"}, {hidden}, {.name = "first"});
    h = ops::multiply(nn::batch_norm(h, "hidden", {}), shared);
    extra = ops::reduce_mean(ops::square(h), Shape{});
  }
  {
    const auto device = context.logical_device(1);
    const bool train = batch.mode == replicate::Mode::train;
    h = ops::dropout(
        h, {.rate = train ? 0.2 : 0.0, .seed = batch.seed, .batch_total = batch.total_rows});
    h = ops::multiply(
        nn::dense(ops::relu(h), {"hidden"}, {{"middle", 7}}, {.name = "second", .bias = true}),
        ops::reduce_mean(shared, Shape{}));
  }
  const auto device = context.logical_device(2);
  const Tensor logits = nn::dense(h, {"middle"}, {{"classes", kClasses}}, {.name = "third"});
  replicate::add_metric(context.graph(), "accuracy",
                        nn::weighted_sum(nn::correct(logits, batch["label"]), batch["weights"]));
  context.result("norm",
                 ops::reduce_mean(ops::square(logits), Shape{{"replica", context.num_replicas()}}));
  const Tensor losses =
      ops::multiply(ops::softmax_cross_entropy(logits, batch["label"], {}), batch["weights"]);
  return ops::add(ops::reduce_sum(losses, Shape{}), ops::multiply(extra, 0.1));
}

struct TextRuns : test::DeckRun {
  TextRuns() : DeckRun(kText) {
    std::ofstream text(path("text.txt"));
    for (int i = 0; i < 60; ++i) text << "tile " << i * i % 97 << ", ";
  }
};

struct Classifier : test::DeckRun {
  Classifier() : DeckRun(kClassifier) {
    add_model("staged", [] {
      replicate::ReplicatorOptions options;
      options.logical_devices = 3;
      options.inputs = [] {
        return std::vector<replicate::InputSpec>{{"x", {Shape{{"width", kWidth}}, DType::f32}},
                                                 {"label", {Shape{}, DType::i32}, kClasses}};
      };
      return replicate::Replicator(options).run(step);
    });
  }
};

}  // namespace

TEST_CASE("a user's step on logical devices trains alike on every mesh") {
  const Classifier deck;
  // Batch norm sees the rows of a micro-batch: the same ones for one number of replicas.
  const char* const replicas = "--replicate.replicas=2";
  for (const char* micro : {"--train.micro_batches=1", "--train.micro_batches=3"}) {
    deck.train("one", "data:1", {micro, replicas, "--layout.rules=replica:data"});
    REQUIRE(deck.values("one", "loss").size() == 10);
    for (const auto& [mesh, rules] : {std::pair("stage:1", ""),
                                      {"stage:2", ""},
                                      {"stage:3", ""},
                                      {"data:2,stage:2", "replica:data"},
                                      {"stage:3,data:2", "replica:data"},
                                      {"model:2,stage:3", "hidden:model"}}) {
      INFO(mesh << " " << micro);
      deck.train("many", mesh, {micro, replicas, std::string("--layout.rules=") + rules});
      for (const char* key :
           {"loss", "grad_norm", "accuracy", "validation_loss", "validation_accuracy"}) {
        INFO(key);
        CHECK(deck.difference("one", "many", key) < 1e-9);
      }
    }
  }
}

TEST_CASE("checkpoints of stages are global: resumed on other stages, bitwise on the same") {
  const TextRuns deck;
  deck.train("one", "batch:1,stage:1");
  deck.train("two", "batch:1,stage:2");
  REQUIRE(deck.values("one", "loss").size() == 6);
  for (const char* key : {"loss", "grad_norm", "validation_loss"})
    CHECK(deck.difference("one", "two", key) < 1e-9);
  const auto part = [&](const std::string& name, const std::string& mesh, int steps) {
    deck.train(name, mesh, {"--train.resume=auto", "--train.steps=" + std::to_string(steps)});
  };
  part("same", "batch:1,stage:2", 3);
  part("same", "batch:1,stage:2", 6);
  for (const char* key : {"loss", "grad_norm"})
    CHECK(deck.values("same", key) == deck.values("two", key));
  part("hops", "batch:1,stage:2", 2);
  part("hops", "batch:1,stage:1", 3);
  part("hops", "batch:2,stage:3", 5);
  part("hops", "batch:1,stage:2", 6);
  for (const char* key : {"loss", "grad_norm"}) CHECK(deck.difference("one", "hops", key) < 1e-9);
}

TEST_CASE("a staged model is evaluated and writes text as on one rank") {
  const TextRuns deck;
  deck.train("one", "batch:1,stage:1");
  const double expected = deck.validation_loss("one", "batch:1,stage:1");
  CHECK(std::abs(deck.validation_loss("one", "batch:1,stage:3") - expected) < 1e-9);
  const auto text = [&](const char* mesh) {
    const auto read = deck.settings("one", mesh);
    std::ostringstream out;
    const auto backend = train::simulated_backend(MeshShape::parse(mesh, 0).size());
    REQUIRE(train::run_sample(*backend, *read, "", out) == train::kDone);
    return out.str();
  };
  const auto one = text("batch:1,stage:1");
  CHECK(one.find("tile") != std::string::npos);
  CHECK(text("batch:1,stage:3") == one);
  CHECK(text("batch:2,stage:2") == one);
}

TEST_CASE("stages that a deck can't have are refused") {
  const TextRuns deck;
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(deck.refusal("batch:1,stage:4", {}), "the model has 3 logical devices"));
  CHECK(has(deck.refusal("batch:1,stage:2", {"--model.stages=1"}), "model.stages"));
  CHECK(has(deck.refusal("batch:1,stage:2", {"--model.stages=4"}), "model.layers = 3"));
}
