// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/dropout.hpp"

#include "dropout.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {
namespace {

/// Linear in x, and its own gradient: the same mask on dy.
class Dropout : public Operation {
 public:
  explicit Dropout(Attributes attributes) : attributes_(std::move(attributes)) {}
  std::string type() const override { return "dropout"; }
  Attributes attributes() const override { return attributes_; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    return {inputs[0]};
  }
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    return {inputs[0].graph().add1(std::make_shared<Dropout>(attributes_), {output_gradients[0]})};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    auto strategies = passing_cuts(context, [](const std::string&) { return true; });
    add_linear(strategies, context, 0, {0});
    return strategies;
  }
  void lower(program::Emitter& emitter) const override {
    program::Emitter::KernelOptions options;
    options.in_place = {{0, 0}};
    emitter.kernel("dropout", attributes_, {emitter.input(0)}, {emitter.output(0)}, options);
  }

 private:
  Attributes attributes_;
};

}  // namespace

Tensor dropout_of_stream(Tensor x, double rate, std::int64_t key, int batch,
                         std::int64_t batch_total) {
  return x.graph().add1(std::make_shared<Dropout>(Attributes{{"rate", rate},
                                                             {"key", key},
                                                             {"batch_dim", std::int64_t{batch}},
                                                             {"batch_total", batch_total}}),
                        {x}, "dropout");
}

Tensor dropout(Tensor x, const DropoutOptions& options) {
  if (options.rate == 0) return x;
  install();
  check_user(options.rate > 0 && options.rate < 1, "dropout: the rate ", options.rate,
             " is not in [0, 1)");
  const auto batch = x.shape().find(options.batch_dim);
  const auto key = stream_key(options.seed, hash_text(x.graph().scoped(options.name)));
  std::int64_t total = options.batch_total;
  if (batch && total == 0) total = x.shape()[*batch].size;
  return x.graph().add1(
      std::make_shared<Dropout>(Attributes{{"rate", options.rate},
                                           {"key", static_cast<std::int64_t>(key)},
                                           {"batch_dim", std::int64_t{batch.value_or(-1)}},
                                           {"batch_total", total}}),
      {x}, options.name);
}

}  // namespace tessera::ops
