// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/norm.hpp"

#include <algorithm>

#include "norm_expansion.hpp"
#include "ops/pointwise_lowering.hpp"
#include "tessera/base/error.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {
namespace {

struct NormOptions {
  std::string axis;
  double epsilon = 0;
  bool rms = false;
  bool scale = false;
  bool bias = false;
};

Attributes norm_attributes(const NormOptions& options, int axis) {
  return {{"axis", static_cast<std::int64_t>(axis)},
          {"epsilon", options.epsilon},
          {"rms", static_cast<std::int64_t>(options.rms)},
          {"scale", static_cast<std::int64_t>(options.scale)},
          {"bias", static_cast<std::int64_t>(options.bias)}};
}

Attributes listing(const NormOptions& options) {
  Attributes attributes = norm_attributes(options, 0);
  return attributes.set("axis", options.axis);
}

/// dy, x, [scale], [mean], rstd -> dx, [dscale], [dbias].
class NormGradient : public Operation {
 public:
  explicit NormGradient(NormOptions options) : options_(std::move(options)) {}
  std::string type() const override { return "norm_gradient"; }
  Attributes attributes() const override { return listing(options_); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    const TensorSpec& x = inputs[1];
    const TensorSpec weight{Shape{x.shape[x.shape.index_of(options_.axis)]},
                            statistics_dtype(x.dtype)};
    std::vector<TensorSpec> outputs{x};
    if (options_.scale) outputs.push_back(weight);
    if (options_.bias) outputs.push_back(weight);
    return outputs;
  }
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    const Shape& x = inputs[1].shape();
    return norm_gradient_of_gradient(inputs, output_gradients, options_.scale, options_.bias,
                                     Shape{x[x.index_of(options_.axis)]}, x.without(options_.axis),
                                     !options_.rms, options_.epsilon);
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override;
  void lower(program::Emitter& emitter) const override;
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return 12.0 * static_cast<double>(inputs[1].size());
  }

 private:
  NormOptions options_;
};

std::vector<Strategy> NormGradient::strategies(const StrategyContext& context) const {
  auto strategies = candidate_strategies(context);
  for (auto& strategy : strategies) {
    // Rows are cut: the gradients of scale and bias are sums over all rows.
    const State& dx = strategy.outputs[0];
    if (dx.is_split() && context.outputs[0].shape[dx.dim].name != options_.axis)
      std::fill(strategy.outputs.begin() + 1, strategy.outputs.end(), State::partial_sum());
  }
  return strategies;
}

void NormGradient::lower(program::Emitter& emitter) const {
  std::vector<program::BufferId> inputs, outputs;
  for (int i = 0; i < emitter.inputs(); ++i) inputs.push_back(emitter.input(i));
  for (int i = 0; i < emitter.outputs(); ++i) outputs.push_back(emitter.output(i));
  const auto& x = emitter.buffer(inputs[1]);
  const auto shape = x.spec.shape;
  const int axis = shape.index_of(options_.axis);
  Attributes attributes = norm_attributes(options_, axis);
  program::Emitter::KernelOptions kernel;
  kernel.flops = 12.0 * static_cast<double>(emitter.local_shape(inputs[1]).size());
  const auto cuts = mesh_dims_of(x.placement, axis);
  if (cuts.empty()) return emitter.kernel("norm_backward", attributes, inputs, outputs, kernel);

  std::vector<Dim> dims = shape.without(options_.axis).dims();
  dims.push_back({"_sum", 2});
  const Shape sums_shape(std::move(dims));
  const Placement placement = mapped(x.placement, dim_map(shape, sums_shape));
  const auto sums =
      emitter.temporary("sums", {sums_shape, statistics_dtype(x.spec.dtype)}, placement);
  emitter.kernel("norm_backward_sums", attributes, inputs, {sums}, kernel);
  emitter.all_reduce(program::ReduceOp::sum, cuts, {sums});
  attributes.set("size", shape[axis].size);
  inputs.push_back(sums);
  emitter.kernel("norm_backward_apply", attributes, inputs, outputs, kernel);
}

/// x, [scale], [bias] -> y, [mean], rstd.
class Norm : public Operation {
 public:
  explicit Norm(NormOptions options) : options_(std::move(options)) {}
  std::string type() const override { return options_.rms ? "rms_norm" : "layer_norm"; }
  Attributes attributes() const override { return listing(options_); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                               std::span<const Tensor> output_gradients) const override;
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    return candidate_strategies(context);
  }
  void lower(program::Emitter& emitter) const override;
  void add_up_statistics(program::Emitter& emitter, int axis,
                         const std::vector<program::BufferId>& statistics) const;
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return 8.0 * static_cast<double>(inputs[0].size());
  }

 private:
  NormOptions options_;
};

std::vector<TensorSpec> Norm::infer(std::span<const TensorSpec> inputs) const {
  const TensorSpec& x = inputs[0];
  const Shape weight{x.shape[x.shape.index_of(options_.axis)]};
  for (const auto& operand : inputs.subspan(1))
    check_user(operand.shape == weight, "the norm's scale or bias is ", operand.shape.to_string(),
               ", over '", options_.axis, "' it must be ", weight.to_string());
  const TensorSpec statistic{x.shape.without(options_.axis), statistics_dtype(x.dtype)};
  std::vector<TensorSpec> outputs{x, statistic};
  if (!options_.rms) outputs.push_back(statistic);
  return outputs;
}

std::vector<Tensor> Norm::gradient(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                                   std::span<const Tensor> output_gradients) const {
  std::vector<Tensor> operands{output_gradients[0], inputs[0]};
  if (options_.scale) operands.push_back(inputs[1]);
  operands.insert(operands.end(), outputs.begin() + 1, outputs.end());
  return inputs[0].graph().add(std::make_shared<NormGradient>(options_), operands);
}

/// Statistics of a cut axis: ranks add up their shares of the mean, then of the squared deviations
/// from it. So much travels for any number of them.
void Norm::add_up_statistics(program::Emitter& emitter, int axis,
                             const std::vector<program::BufferId>& statistics) const {
  const auto x = emitter.buffer(emitter.input(0));
  const Shape& shape = x.spec.shape;
  const DType dtype = statistics_dtype(x.spec.dtype);
  const auto cuts = mesh_dims_of(x.placement, axis);
  const auto temporary = [&](const char* name, const Shape& of) {
    return emitter.temporary(name, {of, dtype}, mapped(x.placement, dim_map(shape, of)));
  };
  const Shape rows = shape.without(options_.axis);
  std::vector<Dim> dims = rows.dims();
  dims.push_back({"_moment", 3});
  const auto moments = temporary("moments", Shape(std::move(dims)));
  const auto variance = temporary("variance", rows);
  program::Emitter::KernelOptions kernel;
  kernel.flops = 4.0 * static_cast<double>(emitter.local_shape(emitter.input(0)).size());
  emitter.kernel("norm_moments", norm_attributes(options_, axis), {emitter.input(0)}, {moments},
                 kernel);
  const Attributes whole{{"size", shape[axis].size}};
  std::vector<program::BufferId> of_variance{moments};
  if (!options_.rms) {
    emitter.kernel("moments_mean", whole, {moments}, {statistics[0]});
    emitter.all_reduce(program::ReduceOp::sum, cuts, {statistics[0]});
    of_variance.push_back(statistics[0]);
  }
  emitter.kernel("moments_variance", whole, of_variance, {variance});
  emitter.all_reduce(program::ReduceOp::sum, cuts, {variance});
  PointwiseCode code(1);
  code.stores = {(Value(&code, 0) + options_.epsilon).apply(PointOp::rsqrt).reg()};
  emit_pointwise(emitter, code, rows, {variance}, {statistics.back()});
}

void Norm::lower(program::Emitter& emitter) const {
  std::vector<program::BufferId> inputs, outputs, statistics;
  for (int i = 0; i < emitter.inputs(); ++i) inputs.push_back(emitter.input(i));
  for (int i = 0; i < emitter.outputs(); ++i) outputs.push_back(emitter.output(i));
  statistics.assign(outputs.begin() + 1, outputs.end());
  const auto x = emitter.buffer(inputs[0]);
  const Shape& shape = x.spec.shape;
  const int axis = shape.index_of(options_.axis);
  const Attributes attributes = norm_attributes(options_, axis);
  program::Emitter::KernelOptions kernel;
  kernel.flops = 8.0 * static_cast<double>(emitter.local_shape(inputs[0]).size());
  const auto cuts = mesh_dims_of(x.placement, axis);
  if (cuts.empty()) return emitter.kernel("norm_forward", attributes, inputs, outputs, kernel);

  add_up_statistics(emitter, axis, statistics);
  std::vector<program::BufferId> operands = inputs;
  operands.insert(operands.end(), statistics.begin(), statistics.end());
  emitter.kernel("norm_apply", attributes, operands, {outputs[0]}, kernel);
}

Tensor norm(Tensor x, NormOptions options, Tensor scale, Tensor bias) {
  install();
  std::vector<Tensor> inputs{x};
  options.scale = static_cast<bool>(scale);
  options.bias = static_cast<bool>(bias);
  if (scale) inputs.push_back(scale);
  if (bias) inputs.push_back(bias);
  return x.graph().add(std::make_shared<Norm>(std::move(options)), inputs)[0];
}

}  // namespace

Tensor layer_norm(Tensor x, const std::string& axis, Tensor scale, Tensor bias, double epsilon) {
  return norm(x, {.axis = axis, .epsilon = epsilon, .rms = false}, scale, bias);
}

Tensor rms_norm(Tensor x, const std::string& axis, Tensor scale, double epsilon) {
  return norm(x, {.axis = axis, .epsilon = epsilon, .rms = true}, scale, {});
}

}  // namespace tessera::ops
