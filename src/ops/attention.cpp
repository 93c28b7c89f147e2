// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/attention.hpp"

#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"
#include "tessera/program/workspace.hpp"

namespace tessera::ops {
namespace {

/// Multiply-adds of one of the products, twice; a causal one does half.
double product_flops(const Shape& q, const Shape& k, bool causal) {
  return 2.0 * static_cast<double>(q.size()) * static_cast<double>(k[1].size) *
         (causal ? 0.5 : 1.0);
}

Shape statistics_shape(const Shape& q) {
  std::vector<Dim> dims{q[0], q[2]};
  if (q.rank() == 5) dims.push_back(q[3]);
  dims.push_back(q[1]);
  return Shape(std::move(dims));
}

/// dout, q, k, v, out, lse -> dq, dk, dv.
class AttentionGradient : public Operation {
 public:
  explicit AttentionGradient(Attributes attributes) : attributes_(std::move(attributes)) {}
  std::string type() const override { return "attention_gradient"; }
  Attributes attributes() const override { return attributes_; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    return {inputs[1], inputs[2], inputs[3]};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override;
  void lower(program::Emitter& emitter) const override;
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return 5 * product_flops(inputs[1], inputs[2], attributes_.integer("causal") != 0);
  }

 private:
  Attributes attributes_;
};

/// Dims along which the kernels can work on a tile: all of the query's but the last.
bool can_cut(const Shape& q, const std::string& name) {
  const auto dim = q.find(name);
  return dim && *dim < q.rank() - 1;
}

std::vector<Strategy> AttentionGradient::strategies(const StrategyContext& context) const {
  std::vector<Strategy> strategies;
  const Shape &q = context.inputs[1].shape, &k = context.inputs[2].shape;
  for (const auto& cut : candidate_cuts(context)) {
    if (!can_cut(q, cut.name)) continue;
    Strategy strategy{states_under(cut, context.inputs), states_under(cut, context.outputs)};
    // Queries of one key on several ranks: the key's gradient is a sum over them.
    if (!k.contains(cut.name)) strategy.outputs[1] = strategy.outputs[2] = State::partial_sum();
    strategies.push_back(std::move(strategy));
  }
  return strategies;
}

program::Emitter::KernelOptions kernel_options(const program::Emitter& emitter, program::BufferId q,
                                               program::BufferId k, bool backward) {
  const Shape local = emitter.local_shape(q), keys = emitter.local_shape(k);
  const program::AttentionSize size{.batch = local[0].size,
                                    .queries = local[1].size,
                                    .keys = keys[1].size,
                                    .heads = local[2].size,
                                    .group = local.rank() == 5 ? local[3].size : 1,
                                    .depth = local[local.rank() - 1].size};
  const DType dtype = emitter.buffer(q).spec.dtype;
  program::Emitter::KernelOptions options;
  options.workspace_bytes = backward ? program::attention_backward_workspace(dtype, size)
                                     : program::attention_forward_workspace(dtype, size);
  return options;
}

void AttentionGradient::lower(program::Emitter& emitter) const {
  std::vector<program::BufferId> inputs, outputs;
  for (int i = 0; i < emitter.inputs(); ++i) inputs.push_back(emitter.input(i));
  for (int i = 0; i < emitter.outputs(); ++i) outputs.push_back(emitter.output(i));
  auto options = kernel_options(emitter, inputs[1], inputs[2], true);
  options.flops = 5 * product_flops(emitter.local_shape(inputs[1]), emitter.local_shape(inputs[2]),
                                    attributes_.integer("causal") != 0);
  emitter.kernel("attention_backward", attributes_, inputs, outputs, options);
}

/// q, k, v -> out, lse.
class Attention : public Operation {
 public:
  explicit Attention(Attributes attributes) : attributes_(std::move(attributes)) {}
  std::string type() const override { return "attention"; }
  Attributes attributes() const override { return attributes_; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                               std::span<const Tensor> output_gradients) const override {
    TESSERA_CHECK(!output_gradients[1], "the attention's log-sum-exp has no gradient");
    return inputs[0].graph().add(
        std::make_shared<AttentionGradient>(attributes_),
        {output_gradients[0], inputs[0], inputs[1], inputs[2], outputs[0], outputs[1]});
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    const Shape q = context.inputs[0].shape;
    return passing_cuts(context, [&](const std::string& name) { return can_cut(q, name); });
  }
  void lower(program::Emitter& emitter) const override;
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return 2 * product_flops(inputs[0], inputs[1], attributes_.integer("causal") != 0);
  }

 private:
  Attributes attributes_;
};

std::vector<TensorSpec> Attention::infer(std::span<const TensorSpec> inputs) const {
  const Shape &q = inputs[0].shape, &k = inputs[1].shape, &v = inputs[2].shape;
  check_user(q.rank() == 4 || q.rank() == 5, "attention: queries are ", q.to_string(),
             "; they must be [batch, length, heads, d] or [batch, length, heads, group, d]");
  const Dim last = q[q.rank() - 1];
  check_user(k.rank() == 4 && k[0] == q[0] && k[2] == q[2] && k[3] == last, "attention: keys are ",
             k.to_string(), ", for queries ", q.to_string(), " they must be [", q[0].name,
             ", memory, ", q[2].name, ", ", last.name, "] with the queries' sizes");
  check_user(!q.contains(k[1].name), "attention: keys ", k.to_string(), " and queries ",
             q.to_string(), " share the dim '", k[1].name,
             "'; rename the keys' to memory, since each query sees all keys");
  check_user(v == k, "attention: values are ", v.to_string(), ", keys ", k.to_string(),
             "; they must be equal");
  return {inputs[0], {statistics_shape(q), statistics_dtype(inputs[0].dtype)}};
}

void Attention::lower(program::Emitter& emitter) const {
  std::vector<program::BufferId> inputs, outputs;
  for (int i = 0; i < emitter.inputs(); ++i) inputs.push_back(emitter.input(i));
  for (int i = 0; i < emitter.outputs(); ++i) outputs.push_back(emitter.output(i));
  auto options = kernel_options(emitter, inputs[0], inputs[1], false);
  options.flops = 2 * product_flops(emitter.local_shape(inputs[0]), emitter.local_shape(inputs[1]),
                                    attributes_.integer("causal") != 0);
  emitter.kernel("attention_forward", attributes_, inputs, outputs, options);
}

}  // namespace

Tensor attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options) {
  install();
  const Shape& shape = q.shape();
  const double d = shape.rank() > 0 ? static_cast<double>(shape[shape.rank() - 1].size) : 1.0;
  Graph& graph = q.graph();
  const auto key = stream_key(options.seed, hash_text(graph.scoped(options.name)));
  const Attributes attributes{
      {"causal", static_cast<std::int64_t>(options.causal)},
      {"scale", options.scale > 0 ? options.scale : 1 / std::sqrt(d)},
      {"group", static_cast<std::int64_t>(shape.rank() == 5)},
      {"dropout", options.dropout},
      {"key", static_cast<std::int64_t>(key)},
      {"batch_total",
       options.batch_total > 0 || shape.rank() == 0 ? options.batch_total : shape[0].size}};
  return graph.add(std::make_shared<Attention>(attributes), {q, k, v})[0];
}

}  // namespace tessera::ops
