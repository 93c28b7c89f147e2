// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/einsum.hpp"

#include <algorithm>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/labels.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"
#include "tessera/program/workspace.hpp"

namespace tessera::ops {
namespace {

/// Product of two tensors in which each dim occurs in at least two of inputs and output.
class Einsum : public Operation {
 public:
  Einsum(Shape output, DType dtype) : output_(std::move(output)), dtype_(dtype) {}

  std::string type() const override { return "einsum"; }
  Attributes attributes() const override {
    return {{"shape", output_.to_string()}, {"dtype", std::string(name_of(dtype_))}};
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    inputs[0].shape.united(inputs[1].shape).united(output_);
    return {{output_, dtype_}};
  }
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    // A product takes operands of one dtype: 16-bit inputs may have given a wider result.
    const Tensor dy = cast(output_gradients[0], inputs[0].dtype());
    return {einsum({dy, inputs[1]}, inputs[0].shape(), gradient_dtype(inputs[0])),
            einsum({inputs[0], dy}, inputs[1].shape(), gradient_dtype(inputs[1]))};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override;
  void lower(program::Emitter& emitter) const override;
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return 2.0 * static_cast<double>(inputs[0].united(inputs[1]).size());
  }

 private:
  Shape output_;
  DType dtype_;
};

std::vector<Strategy> Einsum::strategies(const StrategyContext& context) const {
  std::vector<Strategy> strategies;
  for (const auto& cut : candidate_cuts(context)) {
    const State out = output_.contains(cut.name) ? state_under(cut, output_) : State::partial_sum();
    strategies.push_back({states_under(cut, context.inputs), {out}});
  }
  // 16-bit partial sums lie in memory as f32, which a product of 16-bit numbers can't read.
  for (std::size_t i = 0; i < 2; ++i)
    if (context.inputs[i].dtype != DType::bf16) add_linear(strategies, context, i, {0});
  return strategies;
}

void Einsum::lower(program::Emitter& emitter) const {
  const auto a = emitter.input(0), b = emitter.input(1), c = emitter.output(0);
  const Shape shape_a = emitter.local_shape(a), shape_b = emitter.local_shape(b),
              shape_c = emitter.local_shape(c);
  const Labels labels({&shape_a, &shape_b, &shape_c});
  program::Emitter::KernelOptions options;
  options.flops = 2.0 * static_cast<double>(shape_a.united(shape_b).size());
  const auto dtype = [&](program::BufferId id) { return emitter.buffer(id).spec.dtype; };
  options.workspace_bytes = program::einsum_workspace(dtype(a), dtype(b), dtype(c), shape_a.size(),
                                                      shape_b.size(), shape_c.size());
  emitter.kernel("einsum", {{"in0", labels[0]}, {"in1", labels[1]}, {"out", labels[2]}}, {a, b},
                 {c}, options);
}

/// Dims of `shape` that pass `keep`.
template <class Keep>
Shape filtered(const Shape& shape, Keep keep) {
  std::vector<Dim> dims;
  for (const auto& dim : shape)
    if (keep(dim.name)) dims.push_back(dim);
  return Shape(std::move(dims));
}

/// True if the dim is in the output or in a term other than the skipped ones.
bool is_wanted(const std::string& name, const Shape& output, const std::vector<Tensor>& terms,
               std::size_t skip0, std::size_t skip1) {
  if (output.contains(name)) return true;
  for (std::size_t i = 0; i < terms.size(); ++i)
    if (i != skip0 && i != skip1 && terms[i].shape().contains(name)) return true;
  return false;
}

/// The pair whose product has the fewest multiply-adds.
std::pair<std::size_t, std::size_t> cheapest_pair(const std::vector<Tensor>& terms) {
  std::pair<std::size_t, std::size_t> best{0, 1};
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < terms.size(); ++i)
    for (std::size_t j = i + 1; j < terms.size(); ++j) {
      double cost = 1;
      for (const auto& dim : terms[i].shape().united(terms[j].shape()))
        cost *= static_cast<double>(dim.size);
      if (cost < least) {
        least = cost;
        best = {i, j};
      }
    }
  return best;
}

void check_operands(const std::vector<Tensor>& inputs, const Shape& output) {
  TESSERA_CHECK(!inputs.empty(), "einsum of no tensors");
  Shape joint = output;
  for (const auto& input : inputs) {
    joint = joint.united(input.shape());
    check_user(is_floating(input.dtype()), "einsum: '", input.name(), "' has dtype ",
               name_of(input.dtype()), "; cast it to a floating one first");
    check_user(input.dtype() == inputs[0].dtype(), "einsum: '", inputs[0].name(), "' has dtype ",
               name_of(inputs[0].dtype()), ", '", input.name(), "' has ", name_of(input.dtype()),
               "; cast one of them first");
  }
}

}  // namespace

Tensor einsum(const std::vector<Tensor>& inputs, const Shape& output, std::optional<DType> dtype) {
  install();
  check_operands(inputs, output);
  const DType result_dtype = dtype.value_or(inputs[0].dtype());
  std::vector<Tensor> terms = inputs;
  // A dim of one term alone that the output lacks is summed before it costs anything.
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const Shape kept = filtered(terms[i].shape(), [&](const std::string& name) {
      return is_wanted(name, output, terms, i, i);
    });
    terms[i] = reduce_sum(terms[i], kept, 1, terms[i].dtype());
  }
  while (terms.size() > 1) {
    const auto [i, j] = cheapest_pair(terms);
    const Shape joint = terms[i].shape().united(terms[j].shape());
    const bool last = terms.size() == 2;
    const Shape shape =
        last ? filtered(output, [&](const std::string& name) { return joint.contains(name); })
             : filtered(joint, [&, i = i, j = j](const std::string& name) {
                 return is_wanted(name, output, terms, i, j);
               });
    terms[i] = terms[i].graph().add1(
        std::make_shared<Einsum>(shape, last ? result_dtype : terms[i].dtype()),
        {terms[i], terms[j]}, "einsum");
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(j));
  }
  const Shape present =
      filtered(output, [&](const std::string& name) { return terms[0].shape().contains(name); });
  return broadcast(reduce_sum(terms[0], present, 1, result_dtype), output);
}

DType gradient_dtype(Tensor tensor) {
  const Graph& graph = tensor.graph();
  const auto& info = graph.info(tensor.id());
  if (info.node < 0 || tensor.dtype() != DType::bf16) return tensor.dtype();
  const Node& node = graph.nodes()[static_cast<std::size_t>(info.node)];
  const auto* cast = dynamic_cast<const Pointwise*>(node.operation.get());
  const bool is_cast = cast != nullptr && cast->code().stores == std::vector<int>{0};
  if (!is_cast) return tensor.dtype();
  const auto& source = graph.info(node.inputs[0]);
  return source.variable >= 0 ? source.spec.dtype : tensor.dtype();
}

}  // namespace tessera::ops
