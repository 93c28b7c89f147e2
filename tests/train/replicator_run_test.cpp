// SPDX-License-Identifier: BSD-3-Clause
// A step function replicated by the one training loop: R replicas of B/R rows are one of B, on any
// number of ranks, whole or split, whatever gives the input.
#include <cmath>

#include "tessera/base/philox.hpp"
#include "tessera/data/generated_samples.hpp"
#include "tessera/models/mlp.hpp"
#include "tessera/nn/conv.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/nn/metrics.hpp"
#include "tessera/nn/pipeline.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/activations.hpp"
#include "tessera/ops/dropout.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/ops/softmax_cross_entropy.hpp"
#include "tessera/replicate/replicator.hpp"
#include "train/deck_run.hpp"

using namespace tessera;
using replicate::InputContext;
using replicate::ReplicaContext;
using replicate::Replicator;

namespace {

constexpr std::int64_t kWidth = 5, kHidden = 6, kClasses = 3;

const char* const kDeck = R"(
[model]
name = classifier
[data]
batch = 12
[optim]
lr = 0.02
[train]
steps = 20
dtype = f64
[eval]
every = 10
)";

/// How a step normalises, and where its input comes from.
struct Choices {
  std::string norm = "own";  ///< own: with all_sum; replica: own, per replica; built_in, kept
  double dropout = 0;
  bool mean_loss = false;
  std::string input = "single";  ///< single, per_replica, per_process; deck
};

/// Batch norm of h [replica, batch, hidden] that leaves out rows of weight 0.
Tensor normalise(const ReplicaContext& context, Tensor h, Tensor weights, bool per_replica) {
  const auto combine = [&](Tensor x) { return per_replica ? x : context.all_sum(x); };
  const Dim replica{"replica", context.num_replicas()}, hidden{"hidden", kHidden};
  const Tensor count = combine(ops::reduce_sum(weights, Shape{replica}));
  const auto mean_of = [&](Tensor x) {
    const Tensor sum = ops::reduce_sum(ops::multiply(x, weights), Shape{replica, hidden});
    return ops::divide(combine(sum), count);
  };
  const Tensor centred = ops::subtract(h, mean_of(h));
  const Tensor scale = nn::weight(h.graph(), "norm/scale", Shape{hidden}, h.dtype(),
                                  Initializer::constant(1), false);
  const Tensor bias =
      nn::weight(h.graph(), "norm/bias", Shape{hidden}, h.dtype(), Initializer::constant(0), false);
  const Tensor deviation = ops::rsqrt(ops::add(mean_of(ops::square(centred)), 1e-5));
  return ops::add(ops::multiply(ops::multiply(centred, deviation), scale), bias);
}

Tensor step(const ReplicaContext& context, const replicate::Batch& batch, const Choices& choices) {
  const Tensor weights = ops::cast(batch["weights"], batch.dtype);
  Tensor h = nn::dense(ops::cast(batch["x"], batch.dtype), {"width"}, {{"hidden", kHidden}},
                       {.name = "first", .bias = true});
  if (choices.norm == "own" || choices.norm == "replica")
    h = normalise(context, h, weights, choices.norm == "replica");
  else
    h = nn::batch_norm(
        h, "hidden", {.row_weights = batch.row_weights()},
        choices.norm == "kept" ? std::vector<std::string>{"replica"} : std::vector<std::string>{});
  h = ops::dropout(ops::relu(h),
                   {.rate = batch.mode == replicate::Mode::train ? choices.dropout : 0,
                    .seed = batch.seed,
                    .batch_total = batch.total_rows});
  const Tensor logits = nn::dense(h, {"hidden"}, {{"classes", kClasses}}, {.name = "second"});
  replicate::add_metric(context.graph(), "accuracy",
                        nn::weighted_sum(nn::correct(logits, batch["label"]), batch["weights"]));
  context.result("id", ops::cast(context.replica_id(), DType::f32));
  context.result("rows", context.all_sum(
                             ops::reduce_sum(weights, Shape{{"replica", context.num_replicas()}})));
  const Tensor losses =
      ops::multiply(ops::softmax_cross_entropy(logits, batch["label"], {}), batch["weights"]);
  const Shape each{{"replica", context.num_replicas()}};
  const Tensor sum = ops::reduce_sum(losses, each);
  if (!choices.mean_loss) return sum;
  return ops::divide(sum, ops::reduce_sum(weights, each));
}

/// Sample `index` of 50: points around three centres.
void make_sample(std::int64_t index, data::WholeSample& sample) {
  const auto draw = [&](std::uint64_t i) {
    const auto word = random_word(77, static_cast<std::uint64_t>(index), i);
    return static_cast<float>(2 * uniform_of(static_cast<std::uint32_t>(word)) - 1);
  };
  const auto label =
      static_cast<std::int32_t>(random_word(7, static_cast<std::uint64_t>(index), 0) % kClasses);
  sample.i32("label")[0] = label;
  const auto x = sample.f32("x");
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = draw(i) + (static_cast<std::int32_t>(i) % kClasses == label ? 1.0F : 0.0F);
}

constexpr std::int64_t kSamples = 48, kBatch = 12;

const std::vector<data::Field> kFields{{"x", {Shape{{"width", kWidth}}, DType::f32}},
                                       {"label", {Shape{}, DType::i32}, kClasses}};

/// A pipeline of every kind gives the same samples in each batch: those at its rows.
std::shared_ptr<const data::Samples> open(const InputContext& context) {
  const std::int64_t pipelines = context.num_input_pipelines, rows = context.rows;
  const std::int64_t first = block(kBatch, pipelines, context.input_pipeline_id).begin;
  const std::int64_t offset = context.is_validation ? 1000 : 0;
  data::Generator generator;
  generator.fields = kFields;
  generator.per_epoch = kSamples / kBatch * rows;
  generator.make = [=](std::int64_t, std::int64_t index, data::WholeSample& sample) {
    make_sample(offset + index / rows * kBatch + first + index % rows, sample);
  };
  return data::generated_samples(std::move(generator));
}

/// Runs of a step with such choices.
struct Runs : test::DeckRun {
  explicit Runs(const Choices& choices) : DeckRun(kDeck) {
    add_model("classifier", [choices] {
      replicate::ReplicatorOptions options;
      options.inputs = [] {
        std::vector<replicate::InputSpec> inputs;
        for (const auto& field : kFields) inputs.push_back({field.name, field.spec, field.limit});
        return inputs;
      };
      options.loss = choices.mean_loss ? replicate::LossKind::mean : replicate::LossKind::sum;
      options.input_mode = choices.input == "per_replica"   ? replicate::InputMode::per_replica
                           : choices.input == "per_process" ? replicate::InputMode::per_process
                                                            : replicate::InputMode::single;
      const auto function = [choices](const ReplicaContext& context,
                                      const replicate::Batch& batch) {
        return step(context, batch, choices);
      };
      return Replicator(options).run(function,
                                     choices.input == "deck" ? replicate::InputFunction() : open);
    });
  }
};

/// Runs of any step function of inputs "x".
struct StepRuns : test::DeckRun {
  StepRuns(std::int64_t width, replicate::StepFunction function) : DeckRun(kDeck) {
    add_model("classifier", [=] {
      replicate::ReplicatorOptions options;
      options.inputs = [=] {
        return std::vector<replicate::InputSpec>{{"x", {Shape{{"width", width}}, DType::f32}}};
      };
      return Replicator(options).run(function);
    });
  }
};

const std::vector<std::string> kKeys{"loss",    "grad_norm",       "accuracy",
                                     "samples", "validation_loss", "validation_accuracy"};

/// `run` is `reference` within `tolerance`.
void check_same(const test::DeckRun& deck, const std::string& reference, const std::string& run,
                double tolerance = 1e-9) {
  for (const auto& key : kKeys) {
    INFO(run << " " << key);
    CHECK(deck.difference(reference, run, key) <= tolerance);
  }
}

std::string replicas(int count) {
  return "--replicate.replicas=" + std::to_string(count);
}

}  // namespace

TEST_CASE("one replica of a batch is many of its parts, on any number of ranks, split or whole") {
  const Runs deck(Choices{.dropout = 0.2});
  deck.train("one", "batch:1");
  const auto loss = deck.values("one", "loss");
  REQUIRE(loss.size() == 20);
  CHECK(loss[19] < 0.8 * loss[0]);
  struct Case {
    const char *mesh, *rules;
    int replicas;
  };
  for (const Case& it : {Case{"batch:1", "batch:batch", 2},
                         {"batch:1", "batch:batch", 4},
                         {"batch:2", "batch:batch", 0},
                         {"batch:2", "replica:batch", 4},
                         {"batch:4", "replica:batch", 2},
                         {"batch:4", "batch:batch", 2},
                         {"data:2,model:2", "replica:data, hidden:model", 0},
                         {"data:2,rows:2", "replica:data, batch:rows", 4}}) {
    INFO(it.mesh << " " << it.rules << " " << it.replicas);
    deck.train("many", it.mesh, {std::string("--layout.rules=") + it.rules, replicas(it.replicas)});
    check_same(deck, "one", "many");
  }
  deck.train("micro", "batch:2", {replicas(2), "--train.micro_batches=3"});
  CHECK(std::abs(deck.values("micro", "loss")[0] - loss[0]) > 1e-6);  // statistics are a micro's
}

TEST_CASE("replicas of unequal shares are padded with rows that do not count") {
  const Runs deck(Choices{});
  deck.train("one", "batch:1");
  for (const auto& [mesh, count] : {std::pair{"batch:1", 5}, {"batch:2", 5}, {"batch:3", 7}}) {
    deck.train("many", mesh, {replicas(count), "--replicate.uneven=true"});
    check_same(deck, "one", "many");
  }
}

TEST_CASE("the built-in batch norm leaves such rows out, too") {
  const Runs deck(Choices{.norm = "built_in"});
  deck.train("one", "batch:1");
  for (const auto& [mesh, count] : {std::pair{"batch:1", 5}, {"batch:3", 7}}) {
    deck.train("many", mesh, {replicas(count), "--replicate.uneven=true"});
    check_same(deck, "one", "many");
  }
}

TEST_CASE("statistics per replica depend on their number and on nothing else") {
  const Runs deck(Choices{.norm = "replica"});
  deck.train("one", "batch:1", {replicas(4)});
  deck.train("single", "batch:1", {replicas(1)});
  CHECK(deck.difference("one", "single", "loss") > 1e-3);
  for (const auto& mesh : {"batch:2", "batch:3", "batch:4"}) {
    deck.train("many", mesh, {replicas(4)});
    check_same(deck, "one", "many");
  }
  const Runs kept(Choices{.norm = "kept"});
  kept.train("kept", "batch:2", {replicas(4)});
  for (std::size_t i = 0; i < 20; ++i)
    CHECK(std::abs(kept.values("kept", "loss")[i] - deck.values("one", "loss")[i]) < 1e-9);
}

TEST_CASE("batch norm written with all_sum is the built-in one") {
  const Runs own(Choices{}), built_in(Choices{.norm = "built_in"});
  own.train("own", "batch:2", {replicas(4)});
  built_in.train("built_in", "batch:4");
  for (const char* key : {"loss", "grad_norm"})
    for (std::size_t i = 0; i < 20; ++i)
      CHECK(std::abs(own.values("own", key)[i] - built_in.values("built_in", key)[i]) < 1e-9);
}

TEST_CASE("a loss that is a mean counts replicas by their weights") {
  const Runs sum(Choices{}), mean(Choices{.mean_loss = true});
  sum.train("sum", "batch:1");
  for (const int count : {1, 3, 5}) {
    mean.train("mean", "batch:2", {replicas(count), "--replicate.uneven=true"});
    for (std::size_t i = 0; i < 20; ++i)
      CHECK(std::abs(sum.values("sum", "loss")[i] - mean.values("mean", "loss")[i]) < 1e-9);
  }
}

TEST_CASE("pipelines for each replica, for each process and for all give a step its rows") {
  // Whole replicas, and such whose rows lie on several ranks.
  for (const auto& [mesh, rules] :
       {std::pair{"batch:2", "batch:batch"}, {"data:2,rows:2", "replica:data, batch:rows"}}) {
    const std::vector<std::string> settings{replicas(4), std::string("--layout.rules=") + rules};
    const Runs single(Choices{});
    single.train("single", mesh, settings);
    for (const char* mode : {"per_replica", "per_process"}) {
      const Runs deck(Choices{.input = mode});
      deck.train(mode, mesh, settings);
      for (const auto& key : kKeys) {
        const auto a = single.values("single", key), b = deck.values(mode, key);
        INFO(mesh << " " << mode << " " << key);
        CHECK(a == b);
      }
    }
  }
}

TEST_CASE("samples of the deck are shared out over replicas as over ranks") {
  test::DeckRun deck(kDeck);
  deck.add_model("classifier", [] {
    replicate::ReplicatorOptions options;
    options.inputs = [] {
      return std::vector<replicate::InputSpec>{{"image", {Shape{{"io", 64}}, DType::f32}},
                                               {"label", {Shape{}, DType::i32}, 4}};
    };
    const auto step = [](const ReplicaContext&, const replicate::Batch& batch) {
      const Tensor y = models::perceptron(ops::cast(batch["image"], batch.dtype),
                                          {.io = 64, .hidden = 256, .classes = 4});
      replicate::add_metric(y.graph(), "accuracy",
                            nn::weighted_sum(nn::correct(y, batch["label"]), batch["weights"]));
      return nn::weighted_sum(ops::softmax_cross_entropy(y, batch["label"], {}), batch["weights"]);
    };
    return Replicator(options).run(step);
  });
  const std::vector<std::string> random{"--data.source=random", "--data.random_tokens=100"};
  auto settings = random;
  settings.insert(settings.end(), {"--model.name=mlp", "--model.classes=4"});
  deck.train("plain", "batch:2", settings);
  settings = random;
  settings.insert(settings.end(), {replicas(4), "--train.micro_batches=3"});
  deck.train("replicated", "batch:2", settings);
  for (const char* key : {"loss", "grad_norm", "accuracy", "samples", "validation_loss"})
    CHECK(deck.difference("plain", "replicated", key) < 1e-9);
}

TEST_CASE("results stand in a step's line, of each replica in order or mirrored") {
  const Runs deck(Choices{});
  for (const char* mesh : {"batch:1", "batch:2", "batch:3"}) {
    deck.train("run", mesh, {replicas(3), "--train.steps=1", "--train.micro_batches=2"});
    std::ifstream in(deck.path("run/metrics.jsonl"));
    std::string line;
    std::getline(in, line);
    INFO(line);
    CHECK(line.find("\"id\": [0, 1, 2]") != std::string::npos);
    CHECK(deck.values("run", "rows") == std::vector<double>{6});
  }
}

/// Weights a and b follow the data's mean and each other, by optimizers of their own.
TEST_CASE("optimizers of one step each sum gradients over replicas") {
  test::DeckRun deck(kDeck);
  deck.add_model("classifier", [] {
    replicate::ReplicatorOptions options;
    options.inputs = [] { return std::vector<replicate::InputSpec>{{"x", {Shape{}, DType::f32}}}; };
    const auto pull = [](const std::string& name, const std::string& towards) {
      return [=](const ReplicaContext& context, const replicate::Batch& batch) {
        const auto scalar = [&](const std::string& of) {
          return nn::weight(context.graph(), of, Shape{}, batch.dtype, Initializer::normal(1));
        };
        const Tensor x = ops::multiply(scalar(towards), ops::cast(batch["x"], batch.dtype));
        const Tensor distance = ops::square(ops::subtract(x, scalar(name)));
        return ops::reduce_sum(ops::multiply(distance, batch["weights"]),
                               Shape{{"replica", context.num_replicas()}});
      };
    };
    return Replicator(options).run(
        {replicate::wrap_optimizer({.name = "a", .weights = {"a"}, .runs = 2}, pull("a", "b")),
         replicate::wrap_optimizer({.name = "b",
                                    .weights = {"b"},
                                    .fresh_batch = false,
                                    .adjust = [](optim::OptimConfig& optim) { optim.lr = 0.005; }},
                                   pull("b", "a"))});
  });
  const std::vector<std::string> settings{"--data.source=random", "--data.random_tokens=100",
                                          "--replicate.uneven=true"};
  const auto with = [&](int count) {
    auto all = settings;
    all.push_back(replicas(count));
    return all;
  };
  deck.train("one", "batch:1", with(1));
  for (const auto& [mesh, count] : {std::pair{"batch:1", 4}, {"batch:2", 4}, {"batch:2", 5}}) {
    deck.train("many", mesh, with(count));
    for (const char* key : {"loss", "a/loss", "b/loss", "grad_norm", "validation_loss"})
      CHECK(deck.difference("one", "many", key) < 1e-9);
  }
}

TEST_CASE("a replica in stages trains as a whole one") {
  constexpr std::int64_t kStages = 3, kMicros = 2, kSize = 5;
  const StepRuns deck(kSize, [](const ReplicaContext& context, const replicate::Batch& batch) {
    const Dim replica{"replica", context.num_replicas()}, width{"width", kSize};
    const Tensor x = ops::cast(batch["x"], batch.dtype);
    const Tensor parts =
        ops::reshape(x, Shape{replica, {"micro", kMicros}, {"batch", batch.rows / kMicros}, width});
    const Tensor y = nn::pipeline(parts, {.stages = kStages}, [](Tensor h) {
      const Tensor change = nn::dense(h, {"width"}, {{"out", kSize}},
                                      {.name = "stage",
                                       .bias = true,
                                       .activation = nn::Activation::gelu,
                                       .experts = {"stage"}});
      return ops::add(h, ops::rename(change, "out", "width"));
    });
    const Tensor error = ops::square(ops::add(ops::reshape(y, x.shape()), x));
    return ops::reduce_sum(ops::multiply(error, batch["weights"]), Shape{replica});
  });
  const std::vector<std::string> random{"--data.source=random", "--data.random_tokens=100"};
  auto settings = random;
  settings.push_back(replicas(1));
  deck.train("one", "batch:1", settings);
  const auto loss = deck.values("one", "loss");
  CHECK(loss[19] < 0.8 * loss[0]);
  for (const auto& [mesh, rules, count, recompute] :
       {std::tuple{"line:2", "stage:line", 1, "none"},
        {"line:3", "stage:line", 3, "all"},
        {"data:2,line:2", "replica:data, stage:line", 2, "all"},
        {"data:2,line:3", "batch:data, stage:line", 1, "none"}}) {
    INFO(mesh << " " << rules);
    settings = random;
    settings.insert(settings.end(), {replicas(count), std::string("--layout.rules=") + rules,
                                     std::string("--train.recompute=") + recompute});
    deck.train("many", mesh, settings);
    for (const char* key : {"loss", "grad_norm", "validation_loss"})
      CHECK(deck.difference("one", "many", key) < 1e-9);
  }
}

TEST_CASE("the same step learns asynchronously, and with no staleness as in sync") {
  const Runs deck(Choices{.dropout = 0.2});
  deck.train("sync", "batch:1", {replicas(2), "--train.micro_batches=2"});
  for (const auto& [mesh, ranks] : {std::pair{"batch:1", 3}, {"batch:2", 6}}) {
    deck.train_async("async", ranks, mesh,
                     {replicas(2), "--replicate.servers=" + std::to_string(ranks == 3 ? 1 : 2),
                      "--replicate.staleness=0"});
    for (const char* key : {"loss", "grad_norm", "accuracy", "rows", "validation_loss"}) {
      INFO(mesh << " " << key);
      CHECK(deck.difference("sync", "async", key) < 1e-9);
    }
    std::ifstream in(deck.path("async/metrics.jsonl"));
    std::string line;
    std::getline(in, line);
    INFO(line);
    CHECK(line.find("\"id\": [0, 1]") != std::string::npos);
  }
  deck.train_async("free", 3, "batch:1", {replicas(2)});
  CHECK(deck.values("free", "rows") == std::vector<double>(20, 12));
  const auto loss = deck.values("free", "loss");
  REQUIRE(loss.size() == 20);
  CHECK(loss[19] < 0.8 * loss[0]);
}

TEST_CASE("a repeat and a resumed run are bitwise the run") {
  const Runs deck(Choices{.dropout = 0.2, .input = "per_replica"});
  const std::vector<std::string> four{replicas(4)};
  deck.train("whole", "batch:2", four);
  deck.train("again", "batch:2", four);
  check_same(deck, "whole", "again", 0);
  // The schedule counts on all 20 steps from the start.
  deck.train("resumed", "batch:2", {replicas(4), "--train.steps=10", "--optim.schedule_steps=20"});
  deck.train("resumed", "batch:2", {replicas(4), "--train.resume=auto"});
  check_same(deck, "whole", "resumed", 0);
}

TEST_CASE("what cannot be replicated is refused with what would be") {
  const auto message = [](const test::DeckRun& deck, const std::vector<std::string>& settings) {
    return deck.refusal("batch:2", settings);
  };
  using test::contains;
  const Runs deck(Choices{});
  CHECK(contains(message(deck, {replicas(5)}),
                 "data.batch = 12 rows do not divide among 5 replicas; take 10 or 15"));
  CHECK(contains(message(deck, {replicas(4), "--train.micro_batches=2"}),
                 "does not divide the 3 rows of a replica"));
  CHECK(contains(message(deck, {"--model.name=mlp", "--data.source=random", replicas(2)}),
                 "the model is no step of a replica"));
  CHECK(
      contains(message(Runs(Choices{.input = "deck"}), {"--data.source=text"}), "needs the input"));

  const std::vector<std::string> random{"--data.source=random"};
  const StepRuns no_loss(
      4, [](const ReplicaContext&, const replicate::Batch& batch) { return batch["x"]; });
  CHECK(contains(message(no_loss, random), "legal are [replica:2]"));
  const StepRuns own_weights(4, [](const ReplicaContext& context, const replicate::Batch& batch) {
    const Shape each{{"replica", context.num_replicas()}};
    const Tensor w = nn::weight(context.graph(), "w", each, batch.dtype, Initializer::constant(1));
    return ops::multiply(w, ops::reduce_sum(ops::cast(batch["x"], batch.dtype), each));
  });
  CHECK(contains(message(own_weights, random), "variable 'w' [replica:2] has the dim replica"));
}
