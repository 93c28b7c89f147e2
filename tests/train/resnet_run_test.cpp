// SPDX-License-Identifier: BSD-3-Clause
// Runs of residual nets: on replicas of unequal shares, with statistics per replica, repeated and
// resumed.
#include "tessera/models/resnet.hpp"
#include "tessera/replicate/replicator.hpp"
#include "train/deck_run.hpp"

using namespace tessera;

namespace {

/// A residual net of Tessera's as the step of a replica.
class ReplicatedResNet final : public replicate::ReplicatedModel {
 public:
  void describe(config::Schema& schema) override { net_.describe(schema); }
  std::vector<replicate::InputSpec> inputs(std::int64_t rows, std::int64_t length) const override {
    return net_.inputs(rows, length);
  }

 protected:
  Tensor step(const replicate::ReplicaContext& context, const replicate::Batch& batch) override {
    return net_.loss(context.graph(), batch);
  }

 private:
  models::ResNet net_;
};

/// Batches of 7 pictures; the last one of an epoch of 30 has two.
struct ResNetRuns : test::DeckRun {
  ResNetRuns()
      : DeckRun(
            "[model]\nname = replicated\ndepth = 18\nblocks = 1,1\nheight = 8\nwidth = 6\n"
            "filters = 3\nclasses = 4\nstem = small\nzero_init = false\n"
            "[data]\nsource = random\nrandom_tokens = 36\nvalidation_fraction = 0.17\n"
            "batch = 7\n[optim]\nlr = 0.02\nname = momentum\n"
            "[train]\nsteps = 20\ndtype = f64\n[eval]\nevery = 10\n") {
    add_model("replicated", [] { return std::make_unique<ReplicatedResNet>(); });
  }
};

}  // namespace

TEST_CASE("a residual net on unequal replicas is one on the whole batch") {
  const ResNetRuns deck;
  deck.train("one", "batch:1");
  REQUIRE(deck.values("one", "loss").size() == 20);
  for (const auto& [mesh, count] : {std::pair{"batch:1", 2}, {"batch:2", 4}, {"batch:4", 4}}) {
    INFO(mesh << ", " << count << " replicas");
    deck.train("many", mesh,
               {"--replicate.replicas=" + std::to_string(count), "--replicate.uneven=true"});
    for (const char* key : {"loss", "grad_norm", "top1", "validation_loss"})
      CHECK(deck.difference("one", "many", key) <= 1e-9);
  }
}

TEST_CASE("a residual net with statistics per replica repeats itself and resumes bitwise") {
  const ResNetRuns deck;
  const auto run = [&](const char* name, const char* mesh, const std::vector<std::string>& more) {
    std::vector<std::string> settings{"--model.name=resnet", "--data.batch=8",
                                      "--model.norm_groups=2",
                                      "--layout.rules=batch:batch, replica:batch"};
    settings.insert(settings.end(), more.begin(), more.end());
    deck.train(name, mesh, settings);
  };
  run("one", "batch:1", {});
  for (const char* mesh : {"batch:1", "batch:2", "batch:4"}) {
    run("whole", mesh, {});
    run("again", mesh, {});
    run("parts", mesh, {"--train.steps=10"});
    run("parts", mesh, {"--train.resume=auto"});
    for (const char* key : {"loss", "grad_norm", "validation_loss"}) {
      INFO(mesh << " " << key);
      CHECK(deck.difference("one", "whole", key) < 1e-9);
      CHECK(deck.difference("whole", "again", key) == 0);
      CHECK(deck.difference("whole", "parts", key) == 0);
    }
  }
}
