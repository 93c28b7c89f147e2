// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/nn/moe.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/nn/weights.hpp"
#include "tessera/ops/cumsum.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/gather.hpp"
#include "tessera/ops/random.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/ops/softmax.hpp"
#include "tessera/ops/top_k.hpp"

namespace tessera::nn {
namespace {

using ops::PointOp;

/// Fewest places of an expert, so that small groups don't lose most of their tokens.
constexpr std::int64_t kFewestPlaces = 4;
/// f32 counts so far exactly.
constexpr std::int64_t kMostPlaces = std::int64_t{1} << 24;

/// One expert of each token.
struct Choice {
  Tensor expert;  ///< i32 [batch, groups, tokens]
  Tensor hot;     ///< [batch, groups, tokens, gate]: 1 at the expert
  Tensor weight;  ///< [batch, groups, tokens]: its probability
  Tensor place;   ///< i32 [batch, groups, tokens]: expert x capacity + place, or -1
};

/// What the gate says of tokens [batch, groups, tokens, …].
class Router {
 public:
  Router(Tensor logits, std::int64_t capacity)
      : capacity_(capacity),
        logits_(logits),
        gate_(logits.shape()[logits.shape().index_of("gate")]),
        tokens_(logits.shape().without("gate")) {
    sums_ = ops::reduce_logsumexp(logits, tokens_);
    probabilities_ = ops::pointwise1(
        {logits, sums_}, [](auto in) { return (in[0] - in[1]).apply(PointOp::exp); },
        {.shape = logits.shape(), .dtypes = {logits.dtype()}, .name = "probabilities"});
  }

  std::vector<Choice> choose(const MoeConfig& config, const MoeOptions& options) const;
  Tensor loss(const Choice& first, const MoeConfig& config) const;

 private:
  /// The best expert by `scores`, without a place.
  Choice best(Tensor scores) const;
  /// Gives the tokens places in their order; `taken` [batch, groups, gate] are given away before.
  void place(Choice& choice, Tensor taken) const;
  /// 1 for the tokens whose second expert, of these shares, takes them.
  Tensor kept(Tensor shares, const MoeConfig& config, const MoeOptions& options) const;

  std::int64_t capacity_;
  Tensor logits_, sums_, probabilities_;
  Dim gate_;
  Shape tokens_;
};

Choice Router::best(Tensor scores) const {
  Choice choice;
  choice.expert = ops::argmax(scores, "gate");
  choice.hot = ops::one_hot(choice.expert, gate_, logits_.dtype());
  choice.weight = ops::reduce_sum(ops::multiply(probabilities_, choice.hot), tokens_);
  return choice;
}

void Router::place(Choice& choice, Tensor taken) const {
  Tensor before = ops::cumsum(choice.hot, "tokens", {.exclusive = true});
  if (taken) before = ops::add(before, taken);
  const Tensor place = ops::reduce_sum(ops::multiply(before, choice.hot), tokens_);
  const Tensor wanted = ops::reduce_sum(choice.hot, tokens_);
  const auto capacity = static_cast<double>(capacity_);
  choice.place =
      ops::pointwise1({choice.expert, place, wanted},
                      [=](auto in) {
                        const auto room = in[1].apply(PointOp::less, in[1].constant(capacity));
                        return select(room * in[2], capacity * in[0] + in[1], in[1].constant(-1));
                      },
                      {.shape = tokens_, .dtypes = {DType::i32}, .name = "place"});
}

Tensor Router::kept(Tensor shares, const MoeConfig& config, const MoeOptions& options) const {
  const Tensor draws = ops::random_uniform(
      shares.graph(), {tokens_, shares.dtype()}, 0, config.second_threshold,
      {.seed = options.seed, .name = "second_choice", .batch_total = options.total_rows});
  return ops::stop_gradient(ops::less(draws, shares));
}

std::vector<Choice> Router::choose(const MoeConfig& config, const MoeOptions& options) const {
  std::vector<Choice> chosen{best(logits_)};
  const auto drop_padding = [&](Choice& choice) {
    if (!options.known) return;
    const Shape grouped{tokens_[tokens_.index_of("groups")], tokens_[tokens_.index_of("tokens")]};
    choice.hot = ops::multiply(choice.hot, ops::reshape(options.known, grouped));
  };
  drop_padding(chosen[0]);
  place(chosen[0], {});
  if (config.choices == 1) return chosen;
  const Tensor rest = ops::pointwise1(
      {logits_, chosen[0].hot}, [](auto in) { return select(in[1], in[0].constant(-3e38), in[0]); },
      {.shape = logits_.shape(), .dtypes = {logits_.dtype()}, .name = "rest"});
  chosen.push_back(best(ops::stop_gradient(rest)));
  const auto shares = ops::pointwise({chosen[0].weight, chosen[1].weight},
                                     [](auto in) {
                                       const auto sum = in[0] + in[1];
                                       return std::vector{in[0] / sum, in[1] / sum};
                                     },
                                     {.shape = tokens_, .dtypes = {}, .name = "shares"});
  for (std::size_t i = 0; i < 2; ++i) chosen[i].weight = shares[i];
  if (options.train && config.second_threshold > 0)
    chosen[1].hot = ops::multiply(chosen[1].hot, kept(shares[1], config, options));
  drop_padding(chosen[1]);
  place(chosen[1], ops::reduce_sum(chosen[0].hot, chosen[0].hot.shape().without("tokens")));
  return chosen;
}

Tensor Router::loss(const Choice& first, const MoeConfig& config) const {
  const double count = static_cast<double>(std::max<std::int64_t>(1, tokens_.size()));
  std::vector<Tensor> terms;
  if (config.balance > 0) {
    const Tensor share = ops::reduce_sum(first.hot, Shape{gate_}, 1 / count);
    const Tensor mean = ops::reduce_sum(probabilities_, Shape{gate_}, 1 / count);
    terms.push_back(ops::reduce_sum(ops::multiply(share, mean), Shape{},
                                    config.balance * static_cast<double>(gate_.size)));
  }
  if (config.z_loss > 0)
    terms.push_back(ops::reduce_sum(ops::square(sums_), Shape{}, config.z_loss / count));
  return terms.empty() ? Tensor() : ops::add_n(terms);
}

/// Logits [batch, groups, tokens, gate], computed in full precision.
Tensor gate_logits(Tensor x, const std::string& axis, const Shape& grouped, const MoeConfig& config,
                   const MoeOptions& options) {
  const DType dtype = weight_dtype(x.dtype());
  Tensor input = ops::cast(x, dtype);
  if (options.train && config.jitter > 0)
    input = ops::multiply(
        input,
        ops::random_uniform(
            x.graph(), {x.shape(), dtype}, 1 - config.jitter, 1 + config.jitter,
            {.seed = options.seed, .name = "gate_jitter", .batch_total = options.total_rows}));
  const Dim width = x.shape()[x.shape().index_of(axis)], gate{"gate", config.experts};
  const Tensor w = weight(x.graph(), "gate", {width, gate}, x.dtype(), fan_in_normal({width}));
  std::vector<Dim> dims = grouped.without(axis).dims();
  dims.push_back(gate);
  return ops::einsum({ops::reshape(input, grouped), w}, Shape(dims));
}

/// [batch, (beam,) axis] of a decoding step, one group for each text: [batch, groups, tokens,
/// axis].
Shape step_shape(const Shape& shape, const std::string& axis) {
  const int last = shape.rank() - 1;
  const bool has_beam = shape.rank() == 3 && shape[1].name == "beam";
  check_user(
      (shape.rank() == 2 || has_beam) && shape[0].name == "batch" && shape[last].name == axis,
      "a mixture of experts takes [batch, (beam,) ", axis, "] in a decoding step, found ",
      shape.to_string());
  return {shape[0], {"groups", 1}, {"tokens", has_beam ? shape[1].size : 1}, shape[last]};
}

/// [batch, length, axis] with rows cut into groups: [batch, groups, tokens, axis].
Shape grouped_shape(const Shape& shape, const std::string& axis, std::int64_t group) {
  check_user(shape.rank() == 3 && shape[0].name == "batch" && shape[1].name == "length" &&
                 shape[2].name == axis,
             "a mixture of experts takes [batch, length, ", axis, "], found ", shape.to_string());
  const std::int64_t length = shape[1].size, tokens = group > 0 ? group : length;
  check_user(tokens > 0 && length % tokens == 0, "model.moe.group = ", group,
             " does not divide rows of ", length, " tokens; choose a divisor, or 0 for whole rows");
  return {shape[0], {"groups", length / tokens}, {"tokens", tokens}, shape[2]};
}

using Names = std::vector<std::pair<std::string, std::string>>;

Names reversed(Names names) {
  for (auto& [from, to] : names) std::swap(from, to);
  return names;
}

/// Which token has each place, i32 [gate…, batch, groups, capacity]; -1: none.
Tensor tokens_of_places(const std::vector<Choice>& choices, const Shape& places,
                        const std::vector<std::string>& indexed) {
  const Tensor some = choices[0].place;
  const Dim tokens = some.shape()[some.shape().index_of("tokens")];
  const Tensor ordinal =
      ops::broadcast(ops::range(some.graph(), tokens, DType::f32, 1), some.shape());
  std::vector<Tensor> parts;
  for (const auto& choice : choices)
    parts.push_back(ops::scatter_add(ordinal, choice.place, indexed, places));
  return ops::pointwise1({ops::add_n(parts)}, [](auto in) { return in[0] + -1.0; },
                         {.shape = places, .dtypes = {DType::i32}, .name = "tokens_of_places"});
}

}  // namespace

std::int64_t MoeConfig::places(std::int64_t tokens, bool train) const {
  const double factor = train ? capacity : eval_capacity;
  const double even = static_cast<double>(choices * tokens) / static_cast<double>(experts);
  const auto wanted = static_cast<std::int64_t>(std::ceil(even * factor));
  return std::min(tokens, std::max(kFewestPlaces, wanted));
}

MoeOutput moe(Tensor x, const std::string& axis, const Dim& hidden, const MoeConfig& config,
              const MoeOptions& options) {
  const Shape grouped =
      options.is_step ? step_shape(x.shape(), axis) : grouped_shape(x.shape(), axis, config.group);
  const Dim batch = grouped[0], groups = grouped[1], width = grouped[3];
  const std::int64_t capacity =
      options.is_step ? grouped[2].size : config.places(grouped[2].size, options.train);
  check_user(config.experts * capacity < kMostPlaces, "model.moe: ", config.experts,
             " experts with ", capacity, " places for a group are too many; lower model.moe.group");
  const Router router(gate_logits(x, axis, grouped, config, options), capacity);
  const auto choices = router.choose(config, options);

  // Experts outermost, so that what a rank sends to another lies in one piece.
  std::vector<Dim> dims{{"gate", config.experts}};
  Names moved{{"gate", "experts"}, {"batch", "expert_batch"}, {"groups", "expert_groups"}};
  FeedForwardOptions expert = options.feed_forward;
  expert.bias = false;
  expert.experts = {"experts"};
  if (config.outer > 1) {
    dims = {{"gate_outer", config.outer}, {"gate", config.experts / config.outer}};
    moved.emplace_back("gate_outer", "experts_outer");
    expert.experts = {"experts_outer", "experts"};
  }
  std::vector<std::string> indexed;
  for (const auto& dim : dims) indexed.push_back(dim.name);
  indexed.push_back("capacity");
  dims.insert(dims.end(), {batch, groups, {"capacity", capacity}});

  const Tensor ids = tokens_of_places(choices, Shape(dims), indexed);
  const Tensor sent = ops::gather(ops::reshape(x, grouped), ids, "tokens");
  const Tensor result = feed_forward(ops::rename(sent, moved), axis, hidden, expert).value;
  const Tensor returned = ops::rename(result, reversed(moved));

  std::vector<Tensor> operands;
  for (const auto& choice : choices) {
    operands.push_back(ops::gather(returned, choice.place, indexed));
    operands.push_back(choice.weight);
  }
  const Tensor combined = ops::pointwise1(
      operands,
      [](auto in) { return in.size() == 2 ? in[0] * in[1] : in[0] * in[1] + in[2] * in[3]; },
      {.shape = grouped, .dtypes = {x.dtype()}, .name = "combined"});
  return {ops::reshape(combined, x.shape()),
          options.train ? router.loss(choices[0], config) : Tensor()};
}

}  // namespace tessera::nn
