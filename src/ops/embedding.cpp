// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/embedding.hpp"

#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"
#include "tessera/program/workspace.hpp"

namespace tessera::ops {
namespace {

/// ids, dout -> dtable.
class EmbeddingGradient : public Operation {
 public:
  EmbeddingGradient(Shape table, DType dtype) : table_(std::move(table)), dtype_(dtype) {}
  std::string type() const override { return "embedding_gradient"; }
  Attributes attributes() const override {
    return {{"shape", table_.to_string()}, {"dtype", std::string(name_of(dtype_))}};
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec>) const override {
    return {{table_, dtype_}};
  }
  /// Linear in dout: a look-up.
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    return {Tensor(), cast(embedding(output_gradients[0], inputs[0]), inputs[1].dtype())};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    std::vector<Strategy> strategies;
    for (const auto& cut : candidate_cuts(context)) {
      // Cut ids: each rank sums its own rows. Cut vocabulary: each rank picks its own ids.
      const State out = table_.contains(cut.name) ? state_under(cut, table_) : State::partial_sum();
      strategies.push_back({states_under(cut, context.inputs), {out}});
    }
    if (context.inputs[1].dtype != DType::bf16) add_linear(strategies, context, 1, {0});
    return strategies;
  }
  void lower(program::Emitter& emitter) const override {
    program::Emitter::KernelOptions options;
    options.workspace_bytes =
        program::embedding_backward_workspace(emitter.local_shape(emitter.input(0)).size());
    emitter.kernel("embedding_backward", {{"accumulate", std::int64_t{0}}},
                   {emitter.input(0), emitter.input(1)}, {emitter.output(0)}, options);
  }
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return static_cast<double>(inputs[1].size());
  }

 private:
  Shape table_;
  DType dtype_;
};

class Embedding : public Operation {
 public:
  std::string type() const override { return "embedding"; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    const Tensor table = inputs[0];
    return {table.graph().add1(std::make_shared<EmbeddingGradient>(table.shape(), table.dtype()),
                               {inputs[1], output_gradients[0]}),
            Tensor()};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override;
  void lower(program::Emitter& emitter) const override {
    emitter.kernel("embedding_forward", {}, {emitter.input(0), emitter.input(1)},
                   {emitter.output(0)});
  }
};

std::vector<TensorSpec> Embedding::infer(std::span<const TensorSpec> inputs) const {
  const Shape &table = inputs[0].shape, &ids = inputs[1].shape;
  check_user(table.rank() >= 1, "an embedding table needs a vocabulary dim, found a scalar");
  check_user(inputs[1].dtype == DType::i32, "embedding: ids have dtype ", name_of(inputs[1].dtype),
             ", they must be i32");
  std::vector<Dim> dims = ids.dims();
  for (const auto& dim : table)
    check_user(!ids.contains(dim.name), "embedding: ids ", ids.to_string(), " and table ",
               table.to_string(), " share the dim '", dim.name, "'; rename one of them");
  dims.insert(dims.end(), table.begin() + 1, table.end());
  return {{Shape(std::move(dims)), inputs[0].dtype}};
}

std::vector<Strategy> Embedding::strategies(const StrategyContext& context) const {
  std::vector<Strategy> strategies;
  const Shape& output = context.outputs[0].shape;
  for (const auto& cut : candidate_cuts(context)) {
    const State out = output.contains(cut.name) ? state_under(cut, output) : State::partial_sum();
    strategies.push_back({states_under(cut, context.inputs), {out}});
  }
  if (context.inputs[0].dtype != DType::bf16) add_linear(strategies, context, 0, {0});
  return strategies;
}

}  // namespace

Tensor embedding(Tensor table, Tensor ids) {
  install();
  return table.graph().add1(std::make_shared<Embedding>(), {table, ids}, "embedding");
}

}  // namespace tessera::ops
