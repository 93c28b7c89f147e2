// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/base/error.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::ops {
namespace {

/// Neighbouring dims of both shapes that hold the same elements: input dims [in_begin, in_end)
/// become output dims [out_begin, out_end).
struct Group {
  int in_begin, in_end, out_begin, out_end;
  bool is_one_dim() const { return in_end - in_begin == 1 && out_end - out_begin == 1; }
};

/// The finest such groups, from the outermost dims inwards; a dim of size 1 may be alone.
std::vector<Group> matched_groups(const Shape& from, const Shape& to) {
  std::vector<Group> groups;
  int i = 0, o = 0;
  while (i < from.rank() || o < to.rank()) {
    Group group{i, i, o, o};
    const bool in_is_one = i < from.rank() && from[i].size == 1;
    const bool out_is_one = o < to.rank() && to[o].size == 1;
    const bool in_alone = o == to.rank() || (in_is_one && !out_is_one);
    const bool out_alone = i == from.rank() || (out_is_one && !in_is_one);
    std::int64_t inputs = in_alone || !out_alone ? from[i++].size : 1;
    std::int64_t outputs = out_alone || !in_alone ? to[o++].size : 1;
    while (inputs != outputs && (i < from.rank() || o < to.rank())) {
      const bool take_input = o == to.rank() || (inputs < outputs && i < from.rank());
      if (take_input)
        inputs *= from[i++].size;
      else
        outputs *= to[o++].size;
    }
    group.in_end = i;
    group.out_end = o;
    groups.push_back(group);
  }
  return groups;
}

/// True if cutting dims of sizes a and b of one group `ways` times gives the same pieces.
bool same_borders(std::int64_t a, std::int64_t b, std::int64_t ways) {
  for (std::int64_t i = 1; i < ways; ++i)
    if (block(a, ways, i).begin * b != block(b, ways, i).begin * a) return false;
  return ways > 0;
}

class Reshape : public Operation {
 public:
  explicit Reshape(Shape shape) : shape_(std::move(shape)) {}
  std::string type() const override { return "reshape"; }
  Attributes attributes() const override { return {{"shape", shape_.to_string()}}; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    check_user(inputs[0].shape.size() == shape_.size(), "reshape: ", inputs[0].shape.to_string(),
               " has ", inputs[0].shape.size(), " elements, ", shape_.to_string(), " has ",
               shape_.size());
    return {{shape_, inputs[0].dtype}};
  }
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    return {reshape(output_gradients[0], inputs[0].shape())};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override;
  void lower(program::Emitter& emitter) const override { emitter.alias(0, 0); }

 private:
  Shape shape_;
};

std::vector<Strategy> Reshape::strategies(const StrategyContext& context) const {
  std::vector<Strategy> strategies;
  const Shape& from = context.inputs[0].shape;
  const State& current = context.current[0];
  for (const Group& group : matched_groups(from, shape_)) {
    if (group.in_begin == group.in_end || group.out_begin == group.out_end) continue;
    // A cut passes along a dim that stays, or along the outermost of dims that change.
    if (!group.is_one_dim() &&
        !same_borders(from[group.in_begin].size, shape_[group.out_begin].size, context.ways))
      continue;
    if (current.is_split() && current.dim == group.in_begin &&
        (group.is_one_dim() || !current.inner))
      strategies.push_back({{current}, {State::split(group.out_begin, current.inner)}});
    // Not for the sake of the result's rules where dims change: another mesh dim may cut the same
    // dims then, and borders of nested cuts differ.
    if (context.ruled_inputs[0] == group.in_begin ||
        (group.is_one_dim() && context.ruled_outputs[0] == group.out_begin))
      strategies.push_back({{State::split(group.in_begin)}, {State::split(group.out_begin)}});
  }
  add_linear(strategies, context, 0, {0});
  return strategies;
}

}  // namespace

Tensor reshape(Tensor x, const Shape& shape) {
  install();
  if (x.shape() == shape) return x;
  return x.graph().add1(std::make_shared<Reshape>(shape), {x});
}

}  // namespace tessera::ops
