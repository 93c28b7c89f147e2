// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/attention.hpp"

#include <algorithm>
#include <cmath>

#include "attention_expansion.hpp"
#include "attention_lowering.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/ops/exchange.hpp"
#include "tessera/ops/expansion.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/strategies.hpp"

namespace tessera::ops {
namespace {

/// What an operand is to attention.
enum class AttentionOperand { queries, statistics, keys, query_segments, key_segments, bias };

bool is_of_keys(AttentionOperand role) {
  return role == AttentionOperand::keys || role == AttentionOperand::key_segments;
}

/// The operands behind the fixed ones: segments and bias.
std::vector<AttentionOperand> with_masks(std::vector<AttentionOperand> roles,
                                         const Attributes& attributes) {
  if (has(attributes, "segments")) {
    roles.insert(roles.end(), {AttentionOperand::query_segments, AttentionOperand::key_segments});
  }
  if (has(attributes, "bias")) roles.push_back(AttentionOperand::bias);
  return roles;
}
std::vector<AttentionOperand> forward_inputs(const Attributes& attributes) {
  return with_masks({AttentionOperand::queries, AttentionOperand::keys, AttentionOperand::keys},
                    attributes);
}
std::vector<AttentionOperand> backward_inputs(const Attributes& attributes) {
  return with_masks(
      {AttentionOperand::queries, AttentionOperand::queries, AttentionOperand::keys,
       AttentionOperand::keys, AttentionOperand::queries, AttentionOperand::statistics},
      attributes);
}

/// How keys cut like the queries come to them.
enum class KeyExchange : std::int64_t { automatic, gather, ring };

/// Up to so many ranks keys are gathered, which moves the fewest bytes; on more, whole keys and
/// values would outgrow all else that a rank holds of a block.
constexpr std::int64_t kGatherWays = 4;

/// `roles` of the operands, the last ones of which may be missing. Every operand that has the cut's
/// dim is cut along it. Keys under a cut of the queries' length: cut too if `keys_follow`, else
/// whole, even if theirs bears the same name.
std::vector<State> states_of(const Cut& cut, const std::string& length, bool keys_follow,
                             const std::vector<AttentionOperand>& roles,
                             std::span<const TensorSpec> operands) {
  std::vector<State> states;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    State state = state_under(cut, operands[i].shape);
    if (is_of_keys(roles[i]) && cut.name == length)
      state = keys_follow ? State::split(1) : State::replicated();
    states.push_back(state);
  }
  return states;
}

/// True if a cut of the queries' length leaves the keys cut alike: they have that dim, or theirs is
/// mapped to the same mesh dim, and a window or the number of ranks speaks for it.
bool keys_follow(const Cut& cut, const std::vector<Cut>& cuts, const Shape& q, const Shape& k,
                 const Attributes& attributes, std::int64_t ways) {
  if (cut.inner || cut.name != q[1].name) return false;
  if (std::find(cuts.begin(), cuts.end(), Cut{k[1].name}) == cuts.end()) return false;
  const auto exchange = static_cast<KeyExchange>(attributes.integer("keys"));
  // A window is a matter of positions: blocks of queries and keys must be of equal positions.
  if (attributes.integer("window") > 0)
    return exchange != KeyExchange::gather && k[1].size == q[1].size;
  return exchange == KeyExchange::automatic ? ways > kGatherWays : exchange == KeyExchange::ring;
}

/// What the rank that sends most sends if the keys stay cut.
double key_bytes(const TensorSpec& k, const Attributes& attributes, std::int64_t ways,
                 bool backward) {
  double bytes = 0;
  if (attributes.integer("window") > 0) {
    bytes = 2 * window_bytes(k, 1, attention_window(attributes, k.shape[1].size), ways);
    return backward ? 2 * bytes : bytes;
  }
  const auto size = static_cast<double>(k.shape.size());
  const auto share = static_cast<double>(ways - 1) / static_cast<double>(ways);
  bytes = 2 * share * size * static_cast<double>(bytes_of(k.dtype));
  if (backward) bytes += 2 * size * static_cast<double>(bytes_of(statistics_dtype(k.dtype)));
  return bytes;
}

/// Dims along which the kernels can work on a tile: all of the query's but the last.
bool can_cut(const Shape& q, const std::string& name) {
  const auto dim = q.find(name);
  return dim && *dim < q.rank() - 1;
}

Shape statistics_shape(const Shape& q) {
  std::vector<Dim> dims{q[0], q[2]};
  if (q.rank() == 5) dims.push_back(q[3]);
  dims.push_back(q[1]);
  return Shape(std::move(dims));
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
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                               std::span<const Tensor> output_gradients) const override;
  std::vector<Strategy> strategies(const StrategyContext& context) const override;
  void lower(program::Emitter& emitter) const override {
    lower_attention_gradient(emitter, attributes_);
  }
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return 5 * attention_product_flops(inputs[1], inputs[2], attributes_);
  }

 private:
  Attributes attributes_;
};

std::vector<Tensor> AttentionGradient::gradient(std::span<const Tensor> inputs,
                                                std::span<const Tensor>,
                                                std::span<const Tensor> output_gradients) const {
  const bool bias = has(attributes_, "bias");
  const auto segments = inputs.subspan(6, has(attributes_, "segments") ? 2 : 0);
  std::vector<Tensor> operands(inputs.begin() + 1, inputs.begin() + 4);
  if (bias) operands.push_back(inputs.back());
  const auto expand = [&](std::span<const Tensor> own) {
    return expand_attention(own[0], own[1], own[2], bias ? own[3] : Tensor(), segments,
                            attributes_);
  };
  const auto found =
      gradient_of_gradient(expand, inputs[0], operands,
                           std::vector<Tensor>(output_gradients.begin(), output_gradients.end()));
  std::vector<Tensor> result(inputs.size());
  std::copy_n(found.begin(), 4, result.begin());
  if (bias) result.back() = found.back();
  return result;
}

std::vector<Strategy> AttentionGradient::strategies(const StrategyContext& context) const {
  std::vector<Strategy> strategies;
  const Shape &q = context.inputs[1].shape, &k = context.inputs[2].shape;
  const auto cuts = candidate_cuts(context);
  for (const auto& cut : cuts) {
    if (!can_cut(q, cut.name)) continue;
    const bool follow = keys_follow(cut, cuts, q, k, attributes_, context.ways);
    Strategy strategy{
        states_of(cut, q[1].name, follow, backward_inputs(attributes_), context.inputs),
        states_of(cut, q[1].name, follow,
                  {AttentionOperand::queries, AttentionOperand::keys, AttentionOperand::keys,
                   AttentionOperand::bias},
                  context.outputs)};
    if (follow) strategy.bytes = key_bytes(context.inputs[2], attributes_, context.ways, true);
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
  void lower(program::Emitter& emitter) const override { lower_attention(emitter, attributes_); }
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return 2 * attention_product_flops(inputs[0], inputs[1], attributes_);
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

void check_dtypes(DType q, DType k, DType v) {
  check_user(is_floating(q) && k == q && v == q, "attention: queries are ", name_of(q), ", keys ",
             name_of(k), ", values ", name_of(v),
             "; they must have one floating dtype, cast some of them first");
}

void check_bias(const TensorSpec& bias, const TensorSpec& q, const Attributes& attributes) {
  std::vector<Dim> heads{q.shape[2]};
  if (q.shape.rank() == 5) heads.push_back(q.shape[3]);
  const auto rank = static_cast<int>(heads.size());
  bool fits = bias.shape.rank() == rank + 1 && bias.dtype == statistics_dtype(q.dtype);
  for (int d = 0; fits && d < rank; ++d) fits = bias.shape[d] == heads[static_cast<std::size_t>(d)];
  check_user(fits, "attention: the relative bias is ", bias.shape.to_string(), " in ",
             name_of(bias.dtype), "; it must be ", Shape(heads).to_string(),
             " and a dim of buckets in ", name_of(statistics_dtype(q.dtype)));
  const std::int64_t buckets = bias.shape[rank].size;
  const std::int64_t max_distance = attributes.integer("max_distance");
  const int fewest = has(attributes, "causal") ? 1 : 2;  // one for each side
  check_user(buckets >= fewest && buckets <= 256, "attention: the relative bias has ", buckets,
             " buckets; ", fewest, " to 256 are possible");
  check_user(max_distance >= buckets && max_distance <= (std::int64_t{1} << 30),
             "attention: max_distance = ", max_distance, " for ", buckets,
             " buckets; it must be at least as many, and at most 2^30");
}

std::vector<TensorSpec> Attention::infer(std::span<const TensorSpec> inputs) const {
  const TensorSpec &q = inputs[0], &k = inputs[1];
  check_keys(q.shape, k.shape, inputs[2].shape);
  check_dtypes(q.dtype, k.dtype, inputs[2].dtype);
  if (has(attributes_, "segments")) {
    check_segments(inputs[3], q.shape, "queries");
    check_segments(inputs[4], k.shape, "keys");
  }
  if (has(attributes_, "bias")) check_bias(inputs.back(), q, attributes_);
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
  const Shape &q = context.inputs[0].shape, &k = context.inputs[1].shape;
  const auto cuts = candidate_cuts(context);
  for (const auto& cut : cuts) {
    if (!can_cut(q, cut.name)) continue;
    const bool follow = keys_follow(cut, cuts, q, k, attributes_, context.ways);
    strategies.push_back(
        {states_of(cut, q[1].name, follow, forward_inputs(attributes_), context.inputs),
         states_of(cut, q[1].name, follow,
                   {AttentionOperand::queries, AttentionOperand::statistics}, context.outputs)});
    if (follow)
      strategies.back().bytes = key_bytes(context.inputs[1], attributes_, context.ways, false);
  }
  return strategies;
}

KeyExchange exchange_of(const std::string& keys) {
  if (keys == "gather") return KeyExchange::gather;
  if (keys == "ring") return KeyExchange::ring;
  check_user(keys == "auto", "attention: keys = '", keys, "'; auto, gather or ring are possible");
  return KeyExchange::automatic;
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
      {"keys", static_cast<std::int64_t>(exchange_of(options.keys))},
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
