// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/top_k.hpp"

#include "parts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/gather.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/ops/strategies.hpp"

namespace tessera::ops {
namespace {

/// x -> values, indices.
class Largest : public Operation {
 public:
  Largest(std::string dim, Dim k) : dim_(std::move(dim)), k_(std::move(k)) {}
  std::string type() const override { return "top_k"; }
  Attributes attributes() const override {
    return {{"dim", dim_}, {"k", k_.size}, {"name", k_.name}};
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                               std::span<const Tensor> output_gradients) const override {
    const Tensor x = inputs[0];
    if (!output_gradients[0]) return {Tensor()};
    // The new dim may have the old one's name.
    const auto ranks = [&](Tensor t) { return rename(t, k_.name, "_k"); };
    return {cast(scatter_add(ranks(output_gradients[0]), ranks(outputs[1]), dim_, x.shape()),
                 x.dtype())};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    std::vector<Strategy> strategies;
    for (const auto& cut : candidate_cuts(context))
      if (context.inputs[0].shape.contains(cut.name))
        strategies.push_back(
            {states_under(cut, context.inputs),
             cut.name == dim_ ? all_replicated(2) : states_under(cut, context.outputs)});
    return strategies;
  }
  void lower(program::Emitter& emitter) const override;
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return static_cast<double>(inputs[0].size());
  }

 private:
  std::string dim_;
  Dim k_;
};

std::vector<TensorSpec> Largest::infer(std::span<const TensorSpec> inputs) const {
  const Shape& shape = inputs[0].shape;
  const std::int64_t size = shape.size_of(dim_);
  check_user(is_floating(inputs[0].dtype), "top_k: the dtype is ", name_of(inputs[0].dtype),
             "; cast to a floating type");
  check_user(k_.size >= 1 && k_.size <= size, "top_k: k = ", k_.size, " of dim '", dim_,
             "', which has ", size, " elements; choose 1 to ", size);
  check_user(k_.name == dim_ || !shape.contains(k_.name), "top_k: ", shape.to_string(),
             " has the dim '", k_.name, "'; give the result's another name");
  std::vector<Dim> dims = shape.without(dim_).dims();
  dims.push_back(k_);
  const Shape result(std::move(dims));
  return {{result, inputs[0].dtype}, {result, DType::i32}};
}

void Largest::lower(program::Emitter& emitter) const {
  const auto x = emitter.input(0);
  const int dim = emitter.buffer(x).spec.shape.index_of(dim_);
  // f64 holds every value and every index exactly, so that a pair is one piece of memory.
  const auto pairs =
      new_parts(emitter, "pairs", x, dim, {{"_k", k_.size}, {"_pair", 2}}, DType::f64);
  program::Emitter::KernelOptions options;
  options.flops = static_cast<double>(emitter.local_shape(x).size());
  emitter.kernel("top_k_pairs", {{"dim", std::int64_t{dim}}}, {x}, {pairs}, options);
  emitter.kernel("top_k_merge", {}, {gather_parts(emitter, x, dim, pairs)},
                 {emitter.output(0), emitter.output(1)});
}

}  // namespace

TopK top_k(Tensor x, const std::string& dim, const Dim& k) {
  install();
  const auto outputs = x.graph().add(std::make_shared<Largest>(dim, k), {x}, "top_k");
  return {outputs[0], outputs[1]};
}

Tensor argmax(Tensor x, const std::string& dim) {
  // Under the dim's own name a layout would cut the one element.
  const Tensor indices = top_k(x, dim, {"_k", 1}).indices;
  return reshape(indices, indices.shape().without("_k"));
}

}  // namespace tessera::ops
