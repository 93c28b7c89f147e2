// SPDX-License-Identifier: BSD-3-Clause
// Steps that are skipped do not count for rules that count updates: against Adam's closed form.
#include <cmath>

#include "data/writer.hpp"
#include "tessera/nn/layers.hpp"
#include "tessera/ops/elementwise.hpp"
#include "train/deck_run.hpp"
#include "train/numbers_model.hpp"

using namespace tessera;

namespace {

/// The loss is w + x for samples x of 0 or 1. Its gradient is 1 where x = 1; where x = 0 it is not
/// a number: the root of x + 0 w is infinitely steep there.
class Slope final : public test::NumbersModel {
 public:
  Tensor loss(Graph& graph, const replicate::Batch& batch) override {
    const Tensor w = weight(graph, "w", 0);
    const Tensor x = ops::cast(batch["x"], batch.dtype);
    const Tensor root = ops::sqrt(ops::add(x, ops::multiply(w, 0.0)));
    return nn::weighted_sum(ops::add(root, w), batch["weights"]);
  }
};

struct SlopeRuns : test::DeckRun {
  SlopeRuns()
      : DeckRun(
            "[model]\nname = slope\n[data]\nsource = arrays\npath = x.h5\nbatch = 1\n"
            "validation_fraction = 0\n[optim]\nname = adam\nlr = 0.01\nschedule = constant\n"
            "schedule_steps = 12\nwarmup = 0\nclip_norm = 0\nweight_decay = 0\n[eval]\nevery = 0\n"
            "[train]\ndtype = f64\nsteps = 12\non_nonfinite = skip\n") {
    add_model("slope", [] { return std::make_unique<Slope>(); });
    test::Writer writer(path("x.h5"));
    writer.add("/train/x", {4}, std::vector<float>{1, 0, 1, 1}, io::ElementType::Kind::floating);
    writer.write();
  }
  /// Under a constant gradient each of Adam's updates moves the weight by the learning rate.
  void check(const std::string& name) const {
    const auto loss = values(name, "loss");
    REQUIRE(loss.size() == 12);
    int skipped = 0;
    for (std::size_t i = 0; i < loss.size(); ++i) {
      const double x = loss[i] > 0.5 ? 1 : 0;
      const double updates = static_cast<double>(i) - skipped;
      CHECK(std::abs(loss[i] - (x - 0.01 * updates)) < 1e-9);
      skipped += x == 0;
    }
    CHECK(skipped == 3);
  }
};

}  // namespace

TEST_CASE_METHOD(SlopeRuns, "Adam counts the updates that were made, not the steps") {
  train("straight", "batch:1");
  check("straight");
  train("resumed", "batch:1", {"--train.steps=7"});
  train("resumed", "batch:1", {"--train.resume=auto"});
  check("resumed");
  CHECK(values("resumed", "loss") == values("straight", "loss"));
}

TEST_CASE_METHOD(SlopeRuns, "Servers count updates likewise, and go on counting") {
  train_async("straight", 2, "batch:1", {});
  check("straight");
  train_async("resumed", 2, "batch:1", {"--train.steps=7"});
  train_async("resumed", 2, "batch:1", {"--train.resume=auto"});
  check("resumed");
}
