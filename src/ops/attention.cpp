// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/attention.hpp"

#include <algorithm>
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

/// What an operand is to attention.
enum class Role { queries, statistics, keys, query_segments, key_segments, bias };

bool is_of_keys(Role role) {
  return role == Role::keys || role == Role::key_segments;
}

bool has(const Attributes& attributes, const char* operand) {
  return attributes.integer(operand) != 0;
}

/// The operands behind the fixed ones: segments and bias.
std::vector<Role> with_masks(std::vector<Role> roles, const Attributes& attributes) {
  if (has(attributes, "segments")) {
    roles.insert(roles.end(), {Role::query_segments, Role::key_segments});
  }
  if (has(attributes, "bias")) roles.push_back(Role::bias);
  return roles;
}
std::vector<Role> forward_inputs(const Attributes& attributes) {
  return with_masks({Role::queries, Role::keys, Role::keys}, attributes);
}
std::vector<Role> backward_inputs(const Attributes& attributes) {
  return with_masks(
      {Role::queries, Role::queries, Role::keys, Role::keys, Role::queries, Role::statistics},
      attributes);
}

/// `roles` of the operands, the last ones of which may be missing. Every operand that has the cut's
/// dim is cut along it; but keys stay whole under a cut of the queries' length, even if theirs
/// bears the same name.
std::vector<State> states_of(const Cut& cut, const std::string& length,
                             const std::vector<Role>& roles, std::span<const TensorSpec> operands) {
  std::vector<State> states;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool whole = is_of_keys(roles[i]) && cut.name == length;
    states.push_back(whole ? State::replicated() : state_under(cut, operands[i].shape));
  }
  return states;
}

/// Dims along which the kernels can work on a tile: all of the query's but the last.
bool can_cut(const Shape& q, const std::string& name) {
  const auto dim = q.find(name);
  return dim && *dim < q.rank() - 1;
}

/// Multiply-adds of one of the products over what the masks by distance leave, twice.
double product_flops(const Shape& q, const Shape& k, const Attributes& attributes) {
  const bool causal = has(attributes, "causal");
  const auto window = static_cast<double>(attributes.integer("window"));
  double keys = static_cast<double>(k[1].size) * (causal ? 0.5 : 1.0);
  if (window > 0) keys = std::min(keys, causal ? window : 2 * window - 1);
  return 2.0 * static_cast<double>(q.size()) * keys;
}

Shape statistics_shape(const Shape& q) {
  std::vector<Dim> dims{q[0], q[2]};
  if (q.rank() == 5) dims.push_back(q[3]);
  dims.push_back(q[1]);
  return Shape(std::move(dims));
}

program::AttentionSize local_size(const Shape& q, const Shape& k, std::int64_t buckets) {
  return {.batch = q[0].size,
          .queries = q[1].size,
          .keys = k[1].size,
          .heads = q[2].size,
          .group = q.rank() == 5 ? q[3].size : 1,
          .depth = q[q.rank() - 1].size,
          .buckets = buckets};
}

/// One kernel on all operands of the emitter; `first` is the place of q among the inputs.
void emit(program::Emitter& emitter, const Attributes& attributes, int first) {
  const bool backward = first > 0;
  std::vector<program::BufferId> inputs, outputs;
  for (int i = 0; i < emitter.inputs(); ++i) inputs.push_back(emitter.input(i));
  for (int i = 0; i < emitter.outputs(); ++i) outputs.push_back(emitter.output(i));
  const Shape q = emitter.local_shape(emitter.input(first));
  const Shape k = emitter.local_shape(emitter.input(first + 1));
  std::int64_t buckets = 0;
  if (has(attributes, "bias")) {
    const Shape& bias = emitter.buffer(inputs.back()).spec.shape;
    buckets = bias[bias.rank() - 1].size;
  }
  const DType dtype = emitter.buffer(emitter.input(first)).spec.dtype;
  const auto size = local_size(q, k, buckets);
  program::Emitter::KernelOptions options;
  options.workspace_bytes = backward ? program::attention_backward_workspace(dtype, size)
                                     : program::attention_forward_workspace(dtype, size);
  options.flops = (backward ? 5 : 2) * product_flops(q, k, attributes);
  emitter.kernel(backward ? "attention_backward" : "attention_forward", attributes, inputs, outputs,
                 options);
}

/// dout, q, k, v, out, lse, [segments], [bias] -> dq, dk, dv, [dbias].
class AttentionGradient : public Operation {
 public:
  explicit AttentionGradient(Attributes attributes) : attributes_(std::move(attributes)) {}
  std::string type() const override { return "attention_gradient"; }
  Attributes attributes() const override { return attributes_; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    std::vector<TensorSpec> outputs{inputs[1], inputs[2], inputs[3]};
    if (has(attributes_, "bias")) outputs.push_back(inputs.back());
    return outputs;
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override;
  void lower(program::Emitter& emitter) const override { emit(emitter, attributes_, 1); }
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return 5 * product_flops(inputs[1], inputs[2], attributes_);
  }

 private:
  Attributes attributes_;
};

std::vector<Strategy> AttentionGradient::strategies(const StrategyContext& context) const {
  std::vector<Strategy> strategies;
  const Shape& q = context.inputs[1].shape;
  for (const auto& cut : candidate_cuts(context)) {
    if (!can_cut(q, cut.name)) continue;
    Strategy strategy{states_of(cut, q[1].name, backward_inputs(attributes_), context.inputs),
                      states_of(cut, q[1].name, {Role::queries, Role::keys, Role::keys, Role::bias},
                                context.outputs)};
    // Queries of one key, or scores of one bias, on several ranks: the gradient is a sum over them.
    for (std::size_t j = 1; j < strategy.outputs.size(); ++j) {
      if (!strategy.outputs[j].is_split()) strategy.outputs[j] = State::partial_sum();
    }
    strategies.push_back(std::move(strategy));
  }
  return strategies;
}

/// q, k, v, [query segments, key segments], [bias] -> out, lse.
class Attention : public Operation {
 public:
  explicit Attention(Attributes attributes) : attributes_(std::move(attributes)) {}
  std::string type() const override { return "attention"; }
  Attributes attributes() const override { return attributes_; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                               std::span<const Tensor> output_gradients) const override;
  std::vector<Strategy> strategies(const StrategyContext& context) const override;
  void lower(program::Emitter& emitter) const override { emit(emitter, attributes_, 0); }
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return 2 * product_flops(inputs[0], inputs[1], attributes_);
  }

 private:
  Attributes attributes_;
};

void check_keys(const Shape& q, const Shape& k, const Shape& v) {
  check_user(q.rank() == 4 || q.rank() == 5, "attention: queries are ", q.to_string(),
             "; they must be [batch, length, heads, d] or [batch, length, heads, group, d]");
  const Dim last = q[q.rank() - 1];
  check_user(k.rank() == 4 && k[0] == q[0] && k[2] == q[2] && k[3] == last, "attention: keys are ",
             k.to_string(), ", for queries ", q.to_string(), " they must be [", q[0].name,
             ", memory, ", q[2].name, ", ", last.name, "] with the queries' sizes");
  check_user(k[1].name == q[1].name ? k[1] == q[1] : !q.contains(k[1].name), "attention: keys ",
             k.to_string(), " and queries ", q.to_string(), " share the dim '", k[1].name,
             "' but not its size or place; rename the keys' to memory");
  check_user(v == k, "attention: values are ", v.to_string(), ", keys ", k.to_string(),
             "; they must be equal");
}

void check_segments(const TensorSpec& segments, const Shape& x, const char* whose) {
  const Shape wanted{x[0], x[1]};
  check_user(segments == TensorSpec{wanted, DType::i32}, "attention: the ", whose,
             "' segments are ", segments.shape.to_string(), " in ", name_of(segments.dtype),
             "; they must be ", wanted.to_string(), " in i32");
}

void check_bias(const TensorSpec& bias, const TensorSpec& q, std::int64_t max_distance) {
  std::vector<Dim> heads{q.shape[2]};
  if (q.shape.rank() == 5) heads.push_back(q.shape[3]);
  const auto rank = static_cast<int>(heads.size());
  bool fits = bias.shape.rank() == rank + 1 && bias.dtype == statistics_dtype(q.dtype);
  for (int d = 0; fits && d < rank; ++d) fits = bias.shape[d] == heads[static_cast<std::size_t>(d)];
  check_user(fits, "attention: the relative bias is ", bias.shape.to_string(), " in ",
             name_of(bias.dtype), "; it must be ", Shape(heads).to_string(),
             " and a dim of buckets in ", name_of(statistics_dtype(q.dtype)));
  const std::int64_t buckets = bias.shape[rank].size;
  check_user(buckets >= 1 && buckets <= 256, "attention: the relative bias has ", buckets,
             " buckets; 1 to 256 are possible");
  check_user(max_distance >= buckets && max_distance <= (std::int64_t{1} << 30),
             "attention: max_distance = ", max_distance, " for ", buckets,
             " buckets; it must be at least as many, and at most 2^30");
}

std::vector<TensorSpec> Attention::infer(std::span<const TensorSpec> inputs) const {
  const TensorSpec &q = inputs[0], &k = inputs[1];
  check_keys(q.shape, k.shape, inputs[2].shape);
  if (has(attributes_, "segments")) {
    check_segments(inputs[3], q.shape, "queries");
    check_segments(inputs[4], k.shape, "keys");
  }
  if (has(attributes_, "bias")) check_bias(inputs.back(), q, attributes_.integer("max_distance"));
  return {q, {statistics_shape(q.shape), statistics_dtype(q.dtype)}};
}

std::vector<Tensor> Attention::gradient(std::span<const Tensor> inputs,
                                        std::span<const Tensor> outputs,
                                        std::span<const Tensor> output_gradients) const {
  TESSERA_CHECK(!output_gradients[1], "the attention's log-sum-exp has no gradient");
  std::vector<Tensor> operands{output_gradients[0], inputs[0],  inputs[1],
                               inputs[2],           outputs[0], outputs[1]};
  operands.insert(operands.end(), inputs.begin() + 3, inputs.end());
  const auto computed =
      inputs[0].graph().add(std::make_shared<AttentionGradient>(attributes_), operands);
  std::vector<Tensor> gradients(inputs.size());
  std::copy_n(computed.begin(), 3, gradients.begin());
  if (has(attributes_, "bias")) gradients.back() = computed.back();
  return gradients;
}

std::vector<Strategy> Attention::strategies(const StrategyContext& context) const {
  std::vector<Strategy> strategies;
  const Shape& q = context.inputs[0].shape;
  for (const auto& cut : candidate_cuts(context)) {
    if (!can_cut(q, cut.name)) continue;
    strategies.push_back(
        {states_of(cut, q[1].name, forward_inputs(attributes_), context.inputs),
         states_of(cut, q[1].name, {Role::queries, Role::statistics}, context.outputs)});
  }
  return strategies;
}

}  // namespace

Tensor attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options) {
  install();
  const Shape& shape = q.shape();
  const double d = shape.rank() > 0 ? static_cast<double>(shape[shape.rank() - 1].size) : 1.0;
  Graph& graph = q.graph();
  check_user(options.window >= 0, "attention: window = ", options.window,
             "; it is a number of keys, or 0 for all");
  check_user(!options.key_segments || options.query_segments,
             "attention: keys have segments, queries none; give both or the queries' alone");
  const auto key = stream_key(options.seed, hash_text(graph.scoped(options.name)));
  const Attributes attributes{
      {"causal", static_cast<std::int64_t>(options.causal)},
      {"scale", options.scale > 0 ? options.scale : 1 / std::sqrt(d)},
      {"group", static_cast<std::int64_t>(shape.rank() == 5)},
      {"window", options.window},
      {"segments", static_cast<std::int64_t>(static_cast<bool>(options.query_segments))},
      {"bias", static_cast<std::int64_t>(static_cast<bool>(options.relative_bias))},
      {"max_distance", options.max_distance},
      {"dropout", options.dropout},
      {"key", static_cast<std::int64_t>(key)},
      {"batch_total",
       options.batch_total > 0 || shape.rank() == 0 ? options.batch_total : shape[0].size}};
  std::vector<Tensor> operands{q, k, v};
  if (options.query_segments) {
    operands.push_back(options.query_segments);
    operands.push_back(options.key_segments ? options.key_segments : options.query_segments);
  }
  if (options.relative_bias) operands.push_back(options.relative_bias);
  return graph.add(std::make_shared<Attention>(attributes), operands)[0];
}

}  // namespace tessera::ops
