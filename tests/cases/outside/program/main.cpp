// SPDX-License-Identifier: BSD-3-Clause
#include <memory>
#include <tessera/app/app.hpp>
#include <tessera/nn/layers.hpp>
#include <tessera/nn/weights.hpp>
#include <tessera/ops/einsum.hpp>
#include <tessera/ops/elementwise.hpp>
#include <tessera/ops/embedding.hpp>
#include <tessera/ops/softmax_cross_entropy.hpp>

#include "snake.hpp"

namespace {

using namespace tessera;

/// Predicts the next byte from the last one, through one hidden layer.
class Bigram : public replicate::Model {
 public:
  void describe(config::Schema& schema) override {
    schema.add("model.hidden", hidden_, "width of the hidden layer").range(1, 1e6);
    schema.add("model.frequency", frequency_, "a of the activation x + sin(a x)^2 / a")
        .range(1e-3, 1e3);
    schema.add("model.ready_made", ready_made_, "compose the activation of Tessera's operations");
  }
  std::int64_t vocab() const override { return kBytes; }

  Tensor loss(Graph& graph, const replicate::Batch& batch) override {
    const Tensor rows = ops::softmax_cross_entropy(project(graph, batch), batch["targets"], {});
    return nn::weighted_sum(rows, batch["weights"]);
  }
  Tensor logits(Graph& graph, const replicate::Batch& batch) override {
    return ops::cast(project(graph, batch), DType::f32);
  }

 private:
  static constexpr std::int64_t kBytes = 256;

  Tensor project(Graph& graph, const replicate::Batch& batch) const {
    const Dim vocab{"vocab", kBytes}, hidden{"hidden", hidden_};
    const Tensor table =
        nn::weight(graph, "table", {vocab, hidden}, batch.dtype, Initializer::normal(1));
    const Tensor output =
        nn::weight(graph, "output", {hidden, vocab}, batch.dtype, Initializer::normal(0.1));
    const Tensor x = ops::embedding(table, batch["tokens"]);
    const Tensor h = ready_made_ ? composed(x) : outside::snake(x, frequency_);
    const Shape& rows = batch["tokens"].shape();
    return ops::einsum({h, output}, Shape{rows[0], rows[1], vocab});
  }

  Tensor composed(Tensor x) const {
    const Tensor sine = ops::sin(ops::multiply(x, frequency_));
    return ops::add(x, ops::multiply(ops::square(sine), 1 / frequency_));
  }

  std::int64_t hidden_ = 32;
  double frequency_ = 1;
  bool ready_made_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  outside::register_snake_kernels();
  App app;
  app.add_model("bigram", [] { return std::make_unique<Bigram>(); });
  return app.main(argc, argv);
}
