// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/reduce.hpp"

#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/labels.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {
namespace {

enum class Reduction { sum, sum_squares, max };

const char* name_of_reduction(Reduction reduction) {
  return reduction == Reduction::sum ? "sum" : reduction == Reduction::max ? "max" : "sum_squares";
}

class Reduce : public Operation {
 public:
  Reduce(Reduction reduction, Shape output, double alpha, DType dtype)
      : reduction_(reduction), output_(std::move(output)), alpha_(alpha), dtype_(dtype) {}

  std::string type() const override { return "reduce"; }
  Attributes attributes() const override {
    return {{"op", std::string(name_of_reduction(reduction_))},
            {"shape", output_.to_string()},
            {"alpha", alpha_},
            {"dtype", std::string(name_of(dtype_))}};
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                               std::span<const Tensor> output_gradients) const override;
  std::vector<Strategy> strategies(const StrategyContext& context) const override;
  void lower(program::Emitter& emitter) const override;
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return static_cast<double>(inputs[0].size());
  }

 private:
  Reduction reduction_;
  Shape output_;
  double alpha_;
  DType dtype_;
};

std::vector<TensorSpec> Reduce::infer(std::span<const TensorSpec> inputs) const {
  const Shape& shape = inputs[0].shape;
  for (const DType dtype : {inputs[0].dtype, dtype_})
    check_user(is_floating(dtype), "a reduction of ", name_of(inputs[0].dtype), " to ",
               name_of(dtype_), "; cast to a floating dtype first");
  for (const auto& dim : output_)
    check_user(shape.contains(dim.name) && shape.size_of(dim.name) == dim.size, shape.to_string(),
               " cannot be reduced to ", output_.to_string(), ": dim '", dim.name,
               shape.contains(dim.name) ? "' has another size" : "' is not among the input's");
  return {{output_, dtype_}};
}

std::vector<Tensor> Reduce::gradient(std::span<const Tensor> inputs,
                                     std::span<const Tensor> outputs,
                                     std::span<const Tensor> output_gradients) const {
  const Tensor x = inputs[0], y = outputs[0], dy = output_gradients[0];
  const PointwiseOptions options{.shape = x.shape(), .dtypes = {x.dtype()}, .name = ""};
  switch (reduction_) {
    case Reduction::sum:
      return {pointwise1(
          {dy}, [&](std::span<const Value> in) { return alpha_ * in[0]; }, options)};
    case Reduction::sum_squares:
      return {pointwise1(
          {x, dy}, [&](std::span<const Value> in) { return 2 * alpha_ * in[0] * in[1]; }, options)};
    default: {
      const Tensor ties = reduce_sum(equal(x, y), output_);
      return {pointwise1(
          {x, y, dy, ties},
          [](std::span<const Value> in) {
            return select(in[0].apply(PointOp::equal, in[1]), in[2] / in[3], in[2].constant(0));
          },
          options)};
    }
  }
}

std::vector<Strategy> Reduce::strategies(const StrategyContext& context) const {
  const State reduced = reduction_ == Reduction::max ? State::partial_max() : State::partial_sum();
  std::vector<Strategy> strategies;
  for (const auto& cut : candidate_cuts(context)) {
    if (!context.inputs[0].shape.contains(cut.name)) continue;
    const State out = output_.contains(cut.name) ? state_under(cut, output_) : reduced;
    strategies.push_back({{state_under(cut, context.inputs[0].shape)}, {out}});
  }
  // A sum of partial sums, a maximum of partial maxima.
  if (reduction_ != Reduction::sum_squares && context.current[0] == reduced)
    strategies.push_back({{reduced}, {reduced}});
  return strategies;
}

void Reduce::lower(program::Emitter& emitter) const {
  const Labels labels({&emitter.buffer(emitter.input(0)).spec.shape, &output_});
  program::Emitter::KernelOptions options;
  options.flops = static_cast<double>(emitter.local_shape(emitter.input(0)).size());
  emitter.kernel("reduce",
                 {{"in", labels[0]},
                  {"out", labels[1]},
                  {"op", std::string(name_of_reduction(reduction_))},
                  {"alpha", alpha_}},
                 {emitter.input(0)}, {emitter.output(0)}, options);
}

Tensor reduce(Reduction reduction, Tensor x, const Shape& output, double alpha,
              std::optional<DType> dtype) {
  install();
  const DType natural =
      x.dtype() == DType::bf16 && reduction != Reduction::max ? DType::f32 : x.dtype();
  return x.graph().add1(std::make_shared<Reduce>(reduction, output, alpha, dtype.value_or(natural)),
                        {x}, std::string("reduce_") + name_of_reduction(reduction));
}

/// Counts the elements that are not 0 (`nonzero`) or 0, and gives 1 where there are some (`wanted`)
/// or none. Over a cut dim the count is a partial sum, reduced once.
Tensor counted(Tensor x, const Shape& output, bool nonzero, bool wanted, const char* name) {
  const DType counts = is_floating(x.dtype()) ? x.dtype() : DType::f32;
  const auto flag = [=](bool ones_where_nonzero, Value value) {
    const Value yes = value.constant(1), no = value.constant(0);
    return ones_where_nonzero ? select(value, yes, no) : select(value, no, yes);
  };
  const Tensor flags =
      pointwise1({x}, [&](std::span<const Value> in) { return flag(nonzero, in[0]); },
                 {.shape = {}, .dtypes = {counts}, .name = name});
  return pointwise1({reduce_sum(flags, output)},
                    [&](std::span<const Value> in) { return flag(wanted, in[0]); },
                    {.shape = output, .dtypes = {counts}, .name = name});
}

}  // namespace

Tensor reduce_any(Tensor x, const Shape& output) {
  return counted(x, output, true, true, "reduce_any");
}

Tensor reduce_all(Tensor x, const Shape& output) {
  return counted(x, output, false, false, "reduce_all");
}

Tensor reduce_sum(Tensor x, const Shape& output, double alpha, std::optional<DType> dtype) {
  if (x.shape() == output && alpha == 1) return dtype ? cast(x, *dtype) : x;
  return reduce(Reduction::sum, x, output, alpha, dtype);
}

Tensor reduce_mean(Tensor x, const Shape& output) {
  const double count = static_cast<double>(x.shape().size()) /
                       static_cast<double>(std::max<std::int64_t>(1, output.size()));
  return reduce(Reduction::sum, x, output, 1 / std::max(count, 1.0), {});
}

Tensor reduce_sum_squares(Tensor x, const Shape& output) {
  return reduce(Reduction::sum_squares, x, output, 1, {});
}

Tensor reduce_max(Tensor x, const Shape& output) {
  return reduce(Reduction::max, x, output, 1, {});
}

Tensor reduce_min(Tensor x, const Shape& output) {
  return negate(reduce_max(negate(x), output));
}

}  // namespace tessera::ops
