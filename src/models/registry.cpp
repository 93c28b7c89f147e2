// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/models/registry.hpp"

#include "tessera/models/convnet.hpp"
#include "tessera/models/d4pg.hpp"
#include "tessera/models/mlp.hpp"
#include "tessera/models/resnet.hpp"
#include "tessera/models/seq2seq.hpp"
#include "tessera/models/sngan.hpp"
#include "tessera/models/transformer.hpp"

namespace tessera::models {

const std::vector<ModelEntry>& builtin_models() {
  static const std::vector<ModelEntry> models = {
      {"transformer", "decoder-only Transformer language model",
       [] { return std::make_unique<Transformer>(); }},
      {"convnet", "convolutional classifier of pictures",
       [] { return std::make_unique<ConvNet>(); }},
      {"resnet", "residual net that classifies pictures (ResNet v1.5)",
       [] { return std::make_unique<ResNet>(); }},
      {"d4pg", "actor and distributional critic for continuous control",
       [] { return std::make_unique<D4pg>(); }},
      {"seq2seq", "encoder-decoder Transformer", [] { return std::make_unique<Seq2Seq>(); }},
      {"sngan", "class-conditional adversarial nets that draw pictures",
       [] { return std::make_unique<Sngan>(); }},
      {"mlp", "two-layer perceptron", [] { return std::make_unique<Mlp>(); }},
  };
  return models;
}

}  // namespace tessera::models
