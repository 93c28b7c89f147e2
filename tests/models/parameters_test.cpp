// SPDX-License-Identifier: BSD-3-Clause
// Numbers of parameters against closed formulas.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "support/catch.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/models/mlp.hpp"
#include "tessera/models/resnet.hpp"
#include "tessera/models/seq2seq.hpp"
#include "tessera/models/transformer.hpp"
#include "tessera/replicate/task.hpp"

using namespace tessera;

namespace {

std::int64_t parameters(replicate::Model& model, std::int64_t length) {
  replicate::TaskConfig task;
  task.batch = 2;
  task.length = length;
  return replicate::Task(model, {}, task).variables().parameters();
}

std::int64_t parameters(const models::TransformerConfig& config, std::int64_t length) {
  models::Transformer model(config);
  return parameters(model, length);
}

/// The [model] section of a deck under input/.
template <class Model>
auto deck_model(const std::string& name) {
  std::ifstream deck(std::filesystem::path(TESSERA_TEST_DECKS) / name);
  REQUIRE(deck.good());
  Model model;
  config::Schema schema;
  model.describe(schema);
  std::string line, section;
  while (std::getline(deck, line)) {
    if (line.starts_with("[")) section = line;
    const auto parts = split(line, '=');
    if (section == "[model]" && parts.size() == 2 && parts[0] != "name")
      schema.assign("model." + parts[0], parts[1], name, "");
  }
  return model.config();
}

}  // namespace

TEST_CASE("decks of the seven language models of the Mesh-TensorFlow paper") {
  std::int64_t d_ff = 4096, heads = 4;
  for (const char* size : {"0.14", "0.22", "0.37", "0.67", "1.28", "2.48", "4.90"}) {
    const std::int64_t d = 1024, d_kv = 256;
    const auto config =
        deck_model<models::Transformer>(concat("mesh_tensorflow/lm_", size, "b.ini"));
    CHECK(parameters(config, 256) ==
          6 * (2 * d * d_ff + 4 * d * heads * d_kv) + 2 * 32768 * d + 13 * d + 256 * d);
    d_ff *= 2;
    heads *= 2;
  }
}

TEST_CASE("decks of language models with experts") {
  const auto small =
      4 * (4 * 512 * 512 + 512 * 16 + 16 * 2 * 512 * 4096) + 2 * 8192 * 512 + 9 * 512 + 256 * 512;
  CHECK(parameters(deck_model<models::Transformer>("mesh_tensorflow/moe_0.28b.ini"), 256) == small);
  CHECK(parameters(deck_model<models::Transformer>("mesh_tensorflow/moe_2d_0.28b.ini"), 256) ==
        small);
  for (const auto& [name, experts] : {std::pair{"6b", 32}, std::pair{"26b", 128}}) {
    const std::int64_t d = 1024;
    CHECK(parameters(deck_model<models::Transformer>(concat("mesh_tensorflow/moe_", name, ".ini")),
                     1024) == 11 * 4 * d * 512 + 8 * 2 * d * 2048 +
                                  3 * experts * (d + 2 * d * 32768) + 2 * 8192 * d + 23 * d +
                                  1024 * d);
  }
}

TEST_CASE("decks of the six translation models of the Mesh-TensorFlow paper") {
  std::int64_t d_ff = 2048, heads = 4;
  for (const char* size : {"0.15", "0.24", "0.42", "0.77", "1.48", "2.89"}) {
    const std::int64_t d = 1024, d_kv = 128, layers = 6;
    models::Seq2Seq model(
        deck_model<models::Seq2Seq>(concat("mesh_tensorflow/tr_", size, "b.ini")));
    const std::int64_t ffn = 2 * d * d_ff, attention = 4 * d * heads * d_kv;
    // One table for both sides, the output apart; norms and positions are all that is added.
    const std::int64_t matrices = layers * (2 * ffn + 3 * attention) + 2 * 32768 * d;
    const std::int64_t found = parameters(model, 256);
    CHECK(found == matrices + (2 * layers + 1 + 3 * layers + 1) * d + 2 * 256 * d);
    CHECK(std::abs(static_cast<double>(matrices) / 1e9 - std::stod(size)) < 0.006);
    d_ff *= 2;
    heads *= 2;
  }
}

TEST_CASE("a GPT-2-like model: biases, layer norms, learned positions, untied output") {
  models::TransformerConfig config;
  config.layers = 12;
  config.d_model = 768;
  config.d_ff = 3072;
  config.heads = 12;
  config.vocab = 50304;
  config.max_length = 64;
  const std::int64_t d = 768, ff = 3072;
  const std::int64_t block = 2 * 2 * d                    // two norms
                             + d * 3 * d + 3 * d          // query, key, value
                             + d * d + d                  // output of attention
                             + d * ff + ff + ff * d + d;  // feed-forward
  CHECK(parameters(config, 64) == 12 * block + 2 * 50304 * d + 64 * d + 2 * d);
}

TEST_CASE("residual nets have the published numbers of parameters") {
  // As torchvision's models of these names.
  for (const auto& [depth, expected] :
       {std::pair{18, 11689512}, std::pair{34, 21797672}, std::pair{50, 25557032},
        std::pair{101, 44549160}, std::pair{152, 60192808}}) {
    models::ResNetConfig config;
    config.depth = depth;
    models::ResNet model(config);
    CHECK(parameters(model, 0) == expected);
  }
}

TEST_CASE("grouped keys, gated layers, tied and computed positions") {
  models::TransformerConfig config;
  config.layers = 1;
  config.d_model = 8;
  config.d_ff = 12;
  config.heads = 4;
  config.kv_heads = 2;
  config.vocab = 10;
  config.max_length = 6;
  config.norm = "rms";
  config.activation = "swiglu";
  config.positions = "rotary";
  config.tied = true;
  config.bias = false;
  // d_kv = 2: query 8x4x2, key and value 8x2x2, output 4x2x8; three matrices 8x12; norms.
  CHECK(parameters(config, 6) == 64 + 2 * 32 + 64 + 3 * 96 + 3 * 8 + 10 * 8);
}
