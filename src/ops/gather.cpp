// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/gather.hpp"

#include <algorithm>
#include <cstdint>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/labels.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/random.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {
namespace {

Shape without(Shape shape, const std::vector<std::string>& names) {
  for (const auto& name : names) shape = shape.without(name);
  return shape;
}

/// Checks ids and the indexed dims of the table.
void check_lookup(const char* operation, const TensorSpec& ids, const Shape& table,
                  const std::vector<std::string>& dims) {
  check_user(ids.dtype == DType::i32, operation, ": ids have dtype ", name_of(ids.dtype),
             ", they must be i32");
  check_user(!dims.empty() && dims.size() <= 4, operation, ": ids index ", dims.size(),
             " dims, they can index 1 to 4");
  std::int64_t size = 1;
  for (const auto& dim : dims) {
    size *= table.size_of(dim);
    check_user(!ids.shape.contains(dim), operation, ": ids ", ids.shape.to_string(),
               " have the dim '", dim, "' that they index; rename it");
  }
  check_user(size <= INT32_MAX, operation, ": the indexed dims have ", size,
             " elements, ids of dtype i32 tell at most ", INT32_MAX, " apart");
}

/// The step of either operation: `flat` has all dims but those indexed.
void lower_lookup(program::Emitter& emitter, const char* kernel, program::BufferId flat,
                  program::BufferId table, const std::vector<std::string>& dims) {
  const auto shape_of = [&](program::BufferId id) { return emitter.buffer(id).spec.shape; };
  const Shape flat_shape = shape_of(flat), ids = shape_of(emitter.input(1)), rows = shape_of(table);
  const Labels labels({&flat_shape, &ids, &rows});
  std::vector<std::int64_t> indexed;
  for (const auto& dim : dims) indexed.push_back(rows.index_of(dim));
  emitter.kernel(kernel,
                 {{"flat", labels[0]}, {"ids", labels[1]}, {"table", labels[2]}, {"dims", indexed}},
                 {emitter.input(0), emitter.input(1)}, {emitter.output(0)});
}

class Gather : public Operation {
 public:
  explicit Gather(std::vector<std::string> dims) : dims_(std::move(dims)) {}
  std::string type() const override { return "gather"; }
  Attributes attributes() const override { return {{"dims", join(dims_, ",")}}; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    check_lookup("gather", inputs[1], inputs[0].shape, dims_);
    return {{inputs[1].shape.united(without(inputs[0].shape, dims_)), inputs[0].dtype}};
  }
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    const Tensor x = inputs[0];
    return {cast(scatter_add(output_gradients[0], inputs[1], dims_, x.shape()), x.dtype()),
            Tensor()};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    std::vector<Strategy> strategies;
    for (const auto& cut : candidate_cuts(context))
      strategies.push_back({states_under(cut, context.inputs),
                            lists(dims_, cut.name) ? std::vector<State>{State::partial_sum()}
                                                   : states_under(cut, context.outputs)});
    add_linear(strategies, context, 0, {0});
    return strategies;
  }
  void lower(program::Emitter& emitter) const override {
    lower_lookup(emitter, "gather", emitter.output(0), emitter.input(0), dims_);
  }

 private:
  std::vector<std::string> dims_;
};

class ScatterAdd : public Operation {
 public:
  ScatterAdd(std::vector<std::string> dims, Shape output)
      : dims_(std::move(dims)), output_(std::move(output)) {}
  std::string type() const override { return "scatter_add"; }
  Attributes attributes() const override {
    return {{"dims", join(dims_, ",")}, {"shape", output_.to_string()}};
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    const Tensor values = inputs[0];
    return {cast(broadcast(gather(output_gradients[0], inputs[1], dims_), values.shape()),
                 values.dtype()),
            Tensor()};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    std::vector<Strategy> strategies;
    for (const auto& cut : candidate_cuts(context)) {
      const State out =
          output_.contains(cut.name) ? state_under(cut, output_) : State::partial_sum();
      strategies.push_back({states_under(cut, context.inputs), {out}});
    }
    add_linear(strategies, context, 0, {0});
    return strategies;
  }
  void lower(program::Emitter& emitter) const override {
    lower_lookup(emitter, "scatter_add", emitter.input(0), emitter.output(0), dims_);
  }
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return static_cast<double>(inputs[0].size());
  }

 private:
  std::vector<std::string> dims_;
  Shape output_;
};

std::vector<TensorSpec> ScatterAdd::infer(std::span<const TensorSpec> inputs) const {
  const Shape &values = inputs[0].shape, &ids = inputs[1].shape;
  check_lookup("scatter_add", inputs[1], output_, dims_);
  check_user(is_floating(inputs[0].dtype), "scatter_add: values have dtype ",
             name_of(inputs[0].dtype), "; cast them to a floating type");
  const Shape needed = ids.united(without(output_, dims_));
  check_user(values.rank() == needed.rank() && values.united(needed).rank() == values.rank(),
             "scatter_add: values are ", values.to_string(), ", for ids ", ids.to_string(),
             " and the result ", output_.to_string(), " along '", join(dims_, ","),
             "' they need the dims of ", needed.to_string());
  return {{output_, statistics_dtype(inputs[0].dtype)}};
}

}  // namespace

Tensor gather(Tensor x, Tensor ids, const std::vector<std::string>& dims) {
  install();
  return x.graph().add1(std::make_shared<Gather>(dims), {x, ids}, "gather");
}

Tensor gather(Tensor x, Tensor ids, const std::string& dim) {
  return gather(x, ids, std::vector<std::string>{dim});
}

Tensor scatter_add(Tensor values, Tensor ids, const std::vector<std::string>& dims,
                   const Shape& output) {
  install();
  return values.graph().add1(std::make_shared<ScatterAdd>(dims, output), {values, ids},
                             "scatter_add");
}

Tensor scatter_add(Tensor values, Tensor ids, const std::string& dim, const Shape& output) {
  return scatter_add(values, ids, std::vector<std::string>{dim}, output);
}

Tensor reduce_first(Tensor x, const std::string& dim) {
  return gather(x, fill(x.graph(), 0, {Shape{}, DType::i32}), dim);
}

Tensor one_hot(Tensor ids, const Dim& dim, DType dtype, double on, double off) {
  check_lookup("one_hot", ids.spec(), Shape{dim}, {dim.name});
  check_user(dim.size <= std::int64_t{1} << 24, "one_hot: dim '", dim.name, "' has ", dim.size,
             " elements, at most 2^24 are told apart; use gather");
  std::vector<Dim> dims = ids.shape().dims();
  dims.push_back(dim);
  return pointwise1({ids, range(ids.graph(), dim, DType::i32)},
                    [=](auto in) {
                      return select(in[0].apply(PointOp::equal, in[1]), in[0].constant(on),
                                    in[0].constant(off));
                    },
                    {.shape = Shape(std::move(dims)), .dtypes = {dtype}, .name = "one_hot"});
}

}  // namespace tessera::ops
