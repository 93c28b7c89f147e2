// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous training reaches what synchronous training reaches.
#include <array>

#include "data/writer.hpp"
#include "tessera/base/error.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/ops/elementwise.hpp"
#include "train/deck_run.hpp"
#include "train/numbers_model.hpp"

using namespace tessera;

namespace {

constexpr std::array<float, 4> kNumbers{0.5F, -1, 2, 0.25F};
constexpr double kMean = 0.4375;

/// Moves a scalar `center` to the mean of the data: convex, and its answer is known.
class Center final : public test::NumbersModel {
 public:
  Tensor loss(Graph& graph, const replicate::Batch& batch) override {
    const Tensor x = ops::cast(batch["x"], batch.dtype), center = weight(graph, "center", 3);
    const Tensor everywhere = ops::add(ops::multiply(x, 0.0), center);
    replicate::add_metric(graph, "center", nn::weighted_sum(everywhere, batch["weights"]));
    return nn::weighted_sum(ops::square(ops::subtract(x, center)), batch["weights"]);
  }
};

}  // namespace

TEST_CASE("A convex problem ends at its answer, however stale the gradients") {
  test::DeckRun deck(R"(
[model]
name = center
[data]
source = arrays
path = numbers.h5
batch = 4
validation_fraction = 0
[optim]
name = sgd
momentum = 0
lr = 0.05
[train]
steps = 400
dtype = f64
)");
  deck.add_model("center", [] { return std::make_unique<Center>(); });
  test::Writer writer(deck.path("numbers.h5"));
  writer.add("/train/x", {4}, std::vector<float>(kNumbers.begin(), kNumbers.end()),
             io::ElementType::Kind::floating);
  writer.write();
  const auto bound = GENERATE(-1, 0, 2);
  train::AsyncHooks hooks;
  std::int64_t turn = 0;
  hooks.is_stalled = [&](std::int64_t group) { return group == 1 && ++turn % 4 != 0; };
  deck.train_async("run", 5, "batch:1", {concat("--replicate.staleness=", bound)}, hooks);
  const auto centers = deck.values("run", "center");
  REQUIRE(centers.size() == 400);
  CHECK(std::abs(centers.front() - 3) < 1e-12);
  CHECK(std::abs(centers.back() - kMean) < 1e-9);
}

TEST_CASE("A small language model reaches the synchronous loss") {
  const test::DeckRun deck(R"(
[model]
layers = 1
d_model = 16
d_ff = 24
heads = 2
vocab = 257
max_length = 8
[data]
batch = 12
length = 8
path = text.txt
validation_fraction = 0.2
[optim]
lr = 0.01
[train]
steps = 120
[eval]
every = 120
[layout]
rules = batch:batch
)");
  {
    std::ofstream out(deck.path("text.txt"));
    for (int i = 0; i < 2000; ++i) out << static_cast<char>('a' + (i * i + 3 * i / 7) % 23);
  }
  deck.train("sync", "batch:1");
  // Two groups make twice the updates in the time of one; stale ones are worth less.
  deck.train_async("async", 3, "batch:1", {"--train.steps=240", "--eval.every=240"});
  const double sync = deck.values("sync", "validation_loss").back(),
               async = deck.values("async", "validation_loss").back();
  INFO(sync << " in sync, " << async << " asynchronously");
  CHECK(sync < deck.values("sync", "loss").front() - 2);
  CHECK(async < sync);
}
