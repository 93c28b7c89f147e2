// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/group_norm.hpp"

#include <algorithm>

#include "norm_expansion.hpp"
#include "ops/pointwise_lowering.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/shape_ops.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {
namespace {

/// Roles of x's dims, in the order in which they lie: kept without parameters, normalised without,
/// kept with, normalised with (kernels/README.md).
enum NormRole : std::int64_t { kOuter, kBefore, kKept, kAfter };

struct GroupNormOptions {
  std::vector<std::int64_t> roles;
  double epsilon = 0;
  bool scale = false;
  bool bias = false;
  bool row_weights = false;

  bool is_over(int dim) const {
    const auto role = roles[static_cast<std::size_t>(dim)];
    return role == kBefore || role == kAfter;
  }
  bool has_parameters(int dim) const { return roles[static_cast<std::size_t>(dim)] >= kKept; }
};

Attributes attributes_of(const GroupNormOptions& options) {
  return {{"roles", options.roles},
          {"epsilon", options.epsilon},
          {"scale", static_cast<std::int64_t>(options.scale)},
          {"bias", static_cast<std::int64_t>(options.bias)},
          {"row_weights", static_cast<std::int64_t>(options.row_weights)}};
}

template <class Keep>
Shape dims_that(const Shape& shape, const Keep& keep) {
  std::vector<Dim> dims;
  for (int d = 0; d < shape.rank(); ++d)
    if (keep(d)) dims.push_back(shape[d]);
  return Shape(std::move(dims));
}

Shape statistics_shape(const GroupNormOptions& options, const Shape& x) {
  return dims_that(x, [&](int d) { return !options.is_over(d); });
}
Shape parameter_shape(const GroupNormOptions& options, const Shape& x) {
  return dims_that(x, [&](int d) { return options.has_parameters(d); });
}

/// Mesh dims that cut a dim over which is normalised, in the mesh's order.
std::vector<int> cuts_of(const GroupNormOptions& options, const program::Buffer& x) {
  std::vector<int> cuts;
  for (int d = 0; d < x.spec.shape.rank(); ++d) {
    if (!options.is_over(d)) continue;
    const auto of_dim = mesh_dims_of(x.placement, d);
    cuts.insert(cuts.end(), of_dim.begin(), of_dim.end());
  }
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

/// Statistics' dims with `fresh` behind them.
Shape with_last(const Shape& shape, const Dim& fresh) {
  std::vector<Dim> dims = shape.dims();
  dims.push_back(fresh);
  return Shape(std::move(dims));
}

/// dy, x, [scale], mean, variance, [row weights, count] -> dx, [dscale], [dbias].
class GroupNormGradient : public Operation {
 public:
  explicit GroupNormGradient(GroupNormOptions options) : options_(std::move(options)) {}
  std::string type() const override { return "group_norm_gradient"; }
  Attributes attributes() const override { return attributes_of(options_); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    const TensorSpec& x = inputs[1];
    std::vector<TensorSpec> outputs{x};
    outputs.resize(
        1 + static_cast<std::size_t>(options_.scale) + static_cast<std::size_t>(options_.bias),
        {parameter_shape(options_, x.shape), statistics_dtype(x.dtype)});
    return outputs;
  }
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    const Shape& x = inputs[1].shape();
    LeftOut left_out;
    if (options_.row_weights) left_out = {inputs[inputs.size() - 2], inputs.back()};
    return norm_gradient_of_gradient(inputs, output_gradients, options_.scale, options_.bias,
                                     parameter_shape(options_, x), statistics_shape(options_, x),
                                     true, options_.epsilon, left_out);
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    auto strategies = candidate_strategies(context);
    // Gradients of parameters are sums over what x has and they have not.
    for (auto& strategy : strategies)
      for (std::size_t i = 1; i < strategy.outputs.size(); ++i)
        if (strategy.outputs[i].is_replicated()) strategy.outputs[i] = State::partial_sum();
    return strategies;
  }
  void lower(program::Emitter& emitter) const override;
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return 12.0 * static_cast<double>(inputs[1].size());
  }

 private:
  GroupNormOptions options_;
};

void GroupNormGradient::lower(program::Emitter& emitter) const {
  std::vector<program::BufferId> inputs, rows;
  const int of_rows = options_.row_weights ? 2 : 0;
  for (int i = 0; i < emitter.inputs(); ++i)
    (i < emitter.inputs() - of_rows ? inputs : rows).push_back(emitter.input(i));
  const auto x = emitter.buffer(inputs[1]);
  const Shape statistics = statistics_shape(options_, x.spec.shape);
  const Shape sums_shape = with_last(statistics, {"_sum", 2});
  const auto sums = emitter.temporary("sums", {sums_shape, statistics_dtype(x.spec.dtype)},
                                      mapped(x.placement, dim_map(x.spec.shape, sums_shape)));
  std::vector<program::BufferId> outputs{sums};
  for (int i = 1; i < emitter.outputs(); ++i) outputs.push_back(emitter.output(i));
  Attributes attributes = attributes_of(options_);
  program::Emitter::KernelOptions kernel;
  kernel.flops = 6.0 * static_cast<double>(emitter.local_shape(inputs[1]).size());
  emitter.kernel("group_norm_backward_sums", attributes, inputs, outputs, kernel);
  emitter.all_reduce(program::ReduceOp::sum, cuts_of(options_, x), {sums});
  attributes.set("size", x.spec.shape.size() / std::max<std::int64_t>(1, statistics.size()));
  inputs.push_back(sums);
  inputs.insert(inputs.end(), rows.begin(), rows.end());
  emitter.kernel("group_norm_backward_apply", attributes, inputs, {emitter.output(0)}, kernel);
}

/// x, [scale], [bias], [row weights] -> y, mean, variance, [count].
class GroupNorm : public Operation {
 public:
  explicit GroupNorm(GroupNormOptions options) : options_(std::move(options)) {}
  std::string type() const override { return "group_norm"; }
  Attributes attributes() const override { return attributes_of(options_); }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    const TensorSpec& x = inputs[0];
    const TensorSpec statistic{statistics_shape(options_, x.shape), statistics_dtype(x.dtype)};
    std::vector<TensorSpec> outputs{x, statistic, statistic};
    if (options_.row_weights) outputs.push_back(statistic);
    return outputs;
  }
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                               std::span<const Tensor> output_gradients) const override {
    for (std::size_t i = 0; i < output_gradients.size(); ++i)
      TESSERA_CHECK(static_cast<bool>(output_gradients[i]) == (i == 0),
                    "the statistics of a group norm have no gradient");
    std::vector<Tensor> operands{output_gradients[0], inputs[0]};
    if (options_.scale) operands.push_back(inputs[1]);
    operands.insert(operands.end(), outputs.begin() + 1, outputs.begin() + 3);
    if (options_.row_weights) operands.insert(operands.end(), {inputs.back(), outputs[3]});
    auto gradients = inputs[0].graph().add(std::make_shared<GroupNormGradient>(options_), operands);
    gradients.resize(inputs.size());
    return gradients;
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    return candidate_strategies(context);
  }
  void lower(program::Emitter& emitter) const override;
  void count(program::Emitter& emitter, program::BufferId moments,
             const std::vector<int>& cuts) const;
  void apply(program::Emitter& emitter) const;
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return 8.0 * static_cast<double>(inputs[0].size());
  }

 private:
  GroupNormOptions options_;
};

/// Ranks that hold parts of what is normalised over add up their shares: of the mean, then of the
/// squared deviations from it. So much travels for any number of them.
void GroupNorm::lower(program::Emitter& emitter) const {
  const auto x = emitter.buffer(emitter.input(0));
  const Shape& shape = x.spec.shape;
  const auto cuts = cuts_of(options_, x);
  const Shape statistics = statistics_shape(options_, shape);
  const Shape moments_shape = with_last(statistics, {"_moment", 3});
  const auto moments = emitter.temporary("moments", {moments_shape, statistics_dtype(x.spec.dtype)},
                                         mapped(x.placement, dim_map(shape, moments_shape)));
  const program::BufferId mean = emitter.output(1), variance = emitter.output(2);
  program::Emitter::KernelOptions kernel;
  kernel.flops = 4.0 * static_cast<double>(emitter.local_shape(emitter.input(0)).size());
  std::vector<program::BufferId> inputs{emitter.input(0)};
  if (options_.row_weights) inputs.push_back(emitter.input(emitter.inputs() - 1));
  emitter.kernel("group_norm_moments", attributes_of(options_), inputs, {moments}, kernel);
  if (options_.row_weights) {
    count(emitter, moments, cuts);
    return apply(emitter);
  }
  const std::int64_t size = shape.size() / std::max<std::int64_t>(1, statistics.size());
  const Attributes whole{{"size", std::max<std::int64_t>(1, size)}};
  emitter.kernel("moments_mean", whole, {moments}, {mean});
  emitter.all_reduce(program::ReduceOp::sum, cuts, {mean});
  emitter.kernel("moments_variance", whole, {moments, mean}, {variance});
  emitter.all_reduce(program::ReduceOp::sum, cuts, {variance});
  apply(emitter);
}

/// The same where rows are left out: how many elements count is known when all ranks' shares are
/// added up, and travels with the sum for the mean.
void GroupNorm::count(program::Emitter& emitter, program::BufferId moments,
                      const std::vector<int>& cuts) const {
  const program::BufferId mean = emitter.output(1), variance = emitter.output(2),
                          counts = emitter.output(3);
  const auto buffer = emitter.buffer(mean);
  const auto of_counted = [&](const char* name, program::BufferId result, const char* kernel,
                              const std::vector<program::BufferId>& operands,
                              std::vector<program::BufferId> together) {
    const auto sum = emitter.temporary(name, buffer.spec, buffer.placement);
    emitter.kernel(kernel, {{"size", std::int64_t{1}}}, operands, {sum});
    together.push_back(sum);
    emitter.all_reduce(program::ReduceOp::sum, cuts, together);
    PointwiseCode code(2);
    const Value n = Value(&code, 1).apply(PointOp::maximum, Value(&code, 1).constant(1));
    code.stores = {(Value(&code, 0) / n).reg()};
    emit_pointwise(emitter, code, buffer.spec.shape, {sum, counts}, {result});
  };
  emitter.kernel("moments_count", {}, {moments}, {counts});
  of_counted("sum", mean, "moments_mean", {moments}, {counts});
  of_counted("squares", variance, "moments_variance", {moments, mean}, {});
}

/// y = (x - mean) factor + bias with factor = scale / sqrt(variance + epsilon): elementwise, so
/// that what follows (an activation, a residual sum) may be computed in the same pass.
void GroupNorm::apply(program::Emitter& emitter) const {
  const auto x = emitter.buffer(emitter.input(0));
  const Shape& shape = x.spec.shape;
  const Shape line = dims_that(shape, [&](int d) {
    return !options_.is_over(d) || (options_.scale && options_.has_parameters(d));
  });
  const auto factor = emitter.temporary("factor", {line, statistics_dtype(x.spec.dtype)},
                                        mapped(x.placement, dim_map(shape, line)));
  std::vector<program::BufferId> of_factor{emitter.output(2)};
  if (options_.scale) of_factor.push_back(emitter.input(1));
  PointwiseCode make(static_cast<int>(of_factor.size()));
  Value rstd = (Value(&make, 0) + options_.epsilon).apply(PointOp::rsqrt);
  if (options_.scale) rstd = rstd * Value(&make, 1);
  make.stores = {rstd.reg()};
  emit_pointwise(emitter, make, line, of_factor, {factor});

  std::vector<program::BufferId> of_y{emitter.input(0), emitter.output(1), factor};
  if (options_.bias) of_y.push_back(emitter.input(options_.scale ? 2 : 1));
  PointwiseCode code(static_cast<int>(of_y.size()));
  Value y = (Value(&code, 0) - Value(&code, 1)) * Value(&code, 2);
  if (options_.bias) y = y + Value(&code, 3);
  code.stores = {y.reg()};
  emit_pointwise(emitter, code, shape, of_y, {emitter.output(0)});
}

/// x's dims in the order in which they lie for the kernels, with their roles: those of row weights
/// in front of others of one role.
Shape ordered(const Shape& x, const std::vector<std::string>& over,
              const std::vector<std::string>& parameters, Tensor row_weights,
              std::vector<std::int64_t>& roles) {
  std::vector<std::pair<std::int64_t, Dim>> dims;
  for (const auto& dim : x) {
    const bool is_over = lists(over, dim.name), has = lists(parameters, dim.name);
    const bool is_row = row_weights && row_weights.shape().contains(dim.name);
    const auto role = has ? (is_over ? kAfter : kKept) : (is_over ? kBefore : kOuter);
    check_user(!is_row || !has, "group_norm of '", row_weights ? row_weights.name() : "",
               "': row weights have the dim ", dim.name, ", which has parameters");
    dims.emplace_back(2 * role + (is_row ? 0 : 1), dim);
  }
  std::stable_sort(dims.begin(), dims.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Dim> order;
  for (const auto& [place, dim] : dims) {
    roles.push_back(place / 2);
    order.push_back(dim);
  }
  return Shape(std::move(order));
}

/// Row weights as kernels take them: f32, [outer dims…, those of their dims that are normalised].
Tensor laid_out(Tensor row_weights, const GroupNormOptions& options, const Shape& x) {
  const Shape& has = row_weights.shape();
  for (const auto& dim : has) {
    const auto found = x.find(dim.name);
    check_user(found && x[*found] == dim, "group_norm: row weights are ", has.to_string(),
               ", with a dim that x ", x.to_string(), " has not");
  }
  const Shape wanted = dims_that(x, [&](int d) {
    return options.roles[static_cast<std::size_t>(d)] == kOuter || has.contains(x[d].name);
  });
  const Tensor numbers = cast(row_weights, DType::f32);
  return einsum({has.rank() == wanted.rank() ? numbers : broadcast(numbers, wanted)}, wanted);
}

}  // namespace

Normalised group_norm(Tensor x, const std::vector<std::string>& over,
                      const std::vector<std::string>& parameters, Tensor scale, Tensor bias,
                      double epsilon, Tensor row_weights) {
  install();
  check_user(is_floating(x.dtype()), "group_norm: '", x.name(), "' has dtype ", name_of(x.dtype()),
             "; cast it to a floating one first");
  check_user(!over.empty(), "group_norm of '", x.name(), "' over no dims");
  for (const auto* names : {&over, &parameters})
    for (const auto& name : *names) x.shape().index_of(name);
  GroupNormOptions options;
  const Shape order = ordered(x.shape(), over, parameters, row_weights, options.roles);
  options.epsilon = epsilon;
  options.scale = static_cast<bool>(scale);
  options.bias = static_cast<bool>(bias);
  options.row_weights = static_cast<bool>(row_weights);
  const Shape line = parameter_shape(options, order);
  for (const Tensor operand : {scale, bias})
    check_user(!operand || (operand.shape().rank() == line.rank() &&
                            operand.shape().united(line) == operand.shape()),
               "group_norm: scale or bias is ", operand ? operand.shape().to_string() : "",
               ", it must be ", line.to_string());
  std::vector<Tensor> inputs{einsum({x}, order)};
  if (scale) inputs.push_back(einsum({scale}, line));
  if (bias) inputs.push_back(einsum({bias}, line));
  if (row_weights) inputs.push_back(laid_out(row_weights, options, order));
  const auto outputs = x.graph().add(std::make_shared<GroupNorm>(std::move(options)), inputs);
  return {einsum({outputs[0]}, x.shape()), outputs[1], outputs[2],
          row_weights ? outputs[3] : Tensor()};
}

}  // namespace tessera::ops
