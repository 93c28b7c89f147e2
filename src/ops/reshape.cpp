// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <string>

#include "tessera/base/error.hpp"
#include "tessera/ops/exchange.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"
#include "tessera/program/exchange.hpp"

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

/// The window of a group's elements, counted through, that a tile of its outermost dim holds.
Window window_of(const Shape& shape, int begin, int end) {
  std::int64_t inner = 1;
  for (int d = begin + 1; d < end; ++d) inner *= shape[d].size;
  return {shape[begin].size, inner, 0, inner, Window::Outside::clip};
}

/// Both sides of a reshape with each group's dims counted through as one dim: the same shape, cut
/// by its groups' outermost dims into other windows.
struct Flat {
  Shape shape;
  Windows from, to;
  std::vector<int> group_of_input;  ///< by dim: the group whose outermost dim it is, or -1

  Flat(const Shape& before, const Shape& after);
};

Flat::Flat(const Shape& before, const Shape& after)
    : group_of_input(static_cast<std::size_t>(before.rank()), -1) {
  std::vector<Dim> dims;
  for (const Group& group : matched_groups(before, after)) {
    if (group.in_begin == group.in_end || group.out_begin == group.out_end) continue;
    std::int64_t size = 1;
    for (int d = group.in_begin; d < group.in_end; ++d) size *= before[d].size;
    group_of_input[static_cast<std::size_t>(group.in_begin)] = static_cast<int>(dims.size());
    from.push_back(window_of(before, group.in_begin, group.in_end));
    to.push_back(window_of(after, group.out_begin, group.out_end));
    dims.push_back({"group" + std::to_string(dims.size()), size});
  }
  shape = Shape(std::move(dims));
}

/// One group brought from its old to its new borders, with operands that have these windows.
struct Borders {
  std::vector<program::Buffer> buffers;
  program::ExchangeStep step;

  Borders(const Flat& flat, int group, DType dtype, const Placement& placement) : buffers(2) {
    for (auto& buffer : buffers) {
      buffer.spec = {flat.shape, dtype};
      buffer.placement = placement;
    }
    buffers[0].windows = flat.from;
    buffers[1].windows = flat.to;
    step.dim = group;
    step.runs = {{.count = flat.shape[group].size}};
    step.inputs = {0};
    step.outputs = {1};
    step.mesh_dims = placement.mesh_dims_splitting(group);
    std::sort(step.mesh_dims.begin(), step.mesh_dims.end());
  }
  /// True if the ranks' elements of the group are the same before and after.
  bool equal(const MeshShape& mesh) const {
    const auto& from = buffers[0].windows[static_cast<std::size_t>(step.dim)];
    const auto& to = buffers[1].windows[static_cast<std::size_t>(step.dim)];
    // What all plans have, however many ranks: known without a look at each border.
    const std::int64_t ways = mesh.group_size(step.mesh_dims);
    if (from == to || (from.count % ways == 0 && to.count % ways == 0)) return true;
    const auto load = program::load_of(buffers, step, mesh);
    return std::all_of(load.sent.begin(), load.sent.end(), [](auto n) { return n == 0; });
  }
};

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
  void lower(program::Emitter& emitter) const override;

 private:
  Shape shape_;
};

std::vector<Strategy> Reshape::strategies(const StrategyContext& context) const {
  std::vector<Strategy> strategies;
  const TensorSpec& input = context.inputs[0];
  const State& current = context.current[0];
  const Flat flat(input.shape, shape_);
  for (const Group& group : matched_groups(input.shape, shape_)) {
    if (group.in_begin == group.in_end || group.out_begin == group.out_end) continue;
    // A cut passes along a dim that stays, or along the outermost of dims that change, whose
    // borders are moved if they differ.
    const auto pass = [&](bool inner) {
      const int dim = flat.group_of_input[static_cast<std::size_t>(group.in_begin)];
      const Borders borders(flat, dim, input.dtype, Placement({State::split(dim)}));
      const bool equal = borders.equal(MeshShape({{"ways", context.ways}}));
      const double bytes = equal ? 0 : sent_bytes(borders.buffers, borders.step, context.ways);
      strategies.push_back(
          {{State::split(group.in_begin, inner)}, {State::split(group.out_begin, inner)}, bytes});
    };
    if (current.is_split() && current.dim == group.in_begin) pass(current.inner);
    if (context.ruled_inputs[0] == group.in_begin || context.ruled_outputs[0] == group.out_begin)
      pass(false);
  }
  add_linear(strategies, context, 0, {0});
  return strategies;
}

void Reshape::lower(program::Emitter& emitter) const {
  const program::Buffer input = emitter.buffer(emitter.input(0));
  const DType dtype = input.spec.dtype;
  const Flat flat(input.spec.shape, shape_);
  const Placement placement = mapped(input.placement, flat.group_of_input);
  std::vector<int> moved;
  for (int g = 0; g < flat.shape.rank(); ++g)
    if (!Borders(flat, g, dtype, placement).equal(emitter.mesh())) moved.push_back(g);
  if (moved.empty()) return emitter.alias(0, 0);
  Windows held = flat.from;
  program::BufferId from = emitter.view(emitter.input(0), {flat.shape, dtype}, placement, held);
  for (int g : moved) {
    held[static_cast<std::size_t>(g)] = flat.to[static_cast<std::size_t>(g)];
    program::ExchangeStep step = Borders(flat, g, dtype, placement).step;
    step.inputs = {from};
    from = g == moved.back()
               ? emitter.view(emitter.output(0), {flat.shape, dtype}, placement, flat.to)
               : emitter.temporary("borders", {flat.shape, dtype}, placement, held);
    step.outputs = {from};
    emitter.exchange(std::move(step));
  }
}

}  // namespace

Tensor reshape(Tensor x, const Shape& shape) {
  install();
  if (x.shape() == shape) return x;
  return x.graph().add1(std::make_shared<Reshape>(shape), {x});
}

}  // namespace tessera::ops
