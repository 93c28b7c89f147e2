// SPDX-License-Identifier: BSD-3-Clause
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "tessera/base/error.hpp"
#include "tessera/models/registry.hpp"
#include "tessera/models/transformer.hpp"
#include "tessera/replicate/task.hpp"

using namespace tessera;
using test::contains;

namespace {

std::string message(const models::TransformerConfig& config, const optim::OptimConfig& optim = {},
                    replicate::TaskConfig task = {}) {
  if (task.length == 0) task.length = 4;
  models::Transformer model(config);
  return test::message_of([&] { replicate::Task built(model, optim, task); });
}

models::TransformerConfig small() {
  models::TransformerConfig config;
  config.layers = 1;
  config.d_model = 8;
  config.d_ff = 8;
  config.heads = 2;
  config.vocab = 11;
  config.max_length = 6;
  return config;
}

}  // namespace

TEST_CASE("what a deck can get wrong is named by its keys") {
  CHECK(message(small()).empty());
  auto config = small();
  config.heads = 3;
  CHECK(contains(message(config), "model.heads = 3"));
  config = small();
  config.heads = 4;
  config.kv_heads = 3;
  CHECK(contains(message(config), "model.kv_heads = 3"));
  config = small();
  config.positions = "rotary";
  config.d_kv = 3;
  CHECK(contains(message(config), "model.d_kv"));
  CHECK(contains(message(small(), {}, {.batch = 8, .length = 7}), "model.max_length = 6"));
  replicate::TaskConfig long_texts{.batch = 8, .length = 4};
  long_texts.decode.length = 7;
  CHECK(contains(message(small(), {}, long_texts), "translate.length = 7"));
  CHECK(contains(message(small(), {}, {.batch = 8, .length = 4, .micro_batches = 3}),
                 "train.micro_batches = 3"));
}

TEST_CASE("ids that a language model's tables lack are refused when data are read") {
  const auto inputs = models::Transformer(small()).inputs(2, 4);
  REQUIRE(inputs.size() == 3);
  for (const auto& input : inputs) {
    INFO(input.name);
    CHECK(input.limit == (input.name == "weights" ? 0 : 11));
  }
}

TEST_CASE("frozen weights have no gradient and no slots") {
  optim::OptimConfig optim;
  optim.freeze = {"layer_0/*", "embedding"};
  models::Transformer model(small());
  replicate::TaskConfig task;
  task.length = 4;
  const replicate::Task built(model, optim, task);
  const auto& variables = built.variables();
  CHECK(variables.find("gradient/layer_0/ffn/up") < 0);
  CHECK(variables.find("optimizer/mean/embedding") < 0);
  CHECK(variables.find("gradient/output") >= 0);
  CHECK(variables.find("optimizer/mean/output") >= 0);
  optim.freeze = {"layer_1/*"};
  CHECK(contains(message(small(), optim), "'layer_1/*'"));
  optim.freeze = {"*"};
  CHECK(contains(message(small(), optim), "optim.freeze"));
}

TEST_CASE("norms and biases take no part in weight decay") {
  models::Transformer model(small());
  replicate::TaskConfig task;
  task.length = 4;
  const replicate::Task built(model, {}, task);
  int decayed = 0, spared = 0;
  for (const auto& variable : built.variables()) {
    if (variable.kind != Variable::Kind::weight) continue;
    CHECK(variable.decay ==
          (variable.spec.shape.rank() > 1 && variable.name.find("bias") == std::string::npos));
    (variable.decay ? decayed : spared) += 1;
  }
  CHECK(decayed == 9);  // table, positions, output, four of attention, two of ffn
  CHECK(spared > 0);
}

TEST_CASE("built-in models can be made and described") {
  for (const auto& entry : models::builtin_models()) {
    const auto model = entry.make();
    config::Schema schema;
    model->describe(schema);
    CHECK(schema.keys().size() >= 2);
  }
}
