// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/softmax_cross_entropy.hpp"

#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/expansion.hpp"
#include "tessera/ops/gather.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/ops/softmax.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {
namespace {

/// The loss in primitives.
Tensor expand_cross_entropy(Tensor logits, Tensor labels, const Attributes& attributes) {
  const Shape& rows = labels.shape();
  const std::string& vocab = logits.shape()[logits.shape().rank() - 1].name;
  const Tensor wide = cast(logits, statistics_dtype(logits.dtype()));
  const double smoothing = attributes.real("smoothing"), z_loss = attributes.real("z_loss");
  const double each = smoothing / static_cast<double>(attributes.integer("vocab"));
  return pointwise1(
      {reduce_logsumexp(wide, rows), gather(wide, labels, vocab), reduce_sum(wide, rows)},
      [&](std::span<const Value> in) {
        return in[0] - (1 - smoothing) * in[1] - each * in[2] + z_loss * (in[0] * in[0]);
      },
      {.shape = rows, .dtypes = {wide.dtype()}, .name = "loss"});
}

/// logits, lse, labels, dloss -> dlogits.
class CrossEntropyGradient : public Operation {
 public:
  explicit CrossEntropyGradient(Attributes attributes) : attributes_(std::move(attributes)) {}
  std::string type() const override { return "softmax_cross_entropy_gradient"; }
  Attributes attributes() const override { return attributes_; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    return {inputs[0]};
  }
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    const auto expand = [&](std::span<const Tensor> own) {
      return expand_cross_entropy(own[0], inputs[2], attributes_);
    };
    const auto found = gradient_of_gradient(expand, inputs[3], {inputs[0]}, {output_gradients[0]});
    return {found[1], Tensor(), Tensor(), found[0]};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    return candidate_strategies(context);
  }
  void lower(program::Emitter& emitter) const override {
    program::Emitter::KernelOptions options;
    options.in_place = {{0, 0}};
    options.flops = 4.0 * static_cast<double>(emitter.local_shape(emitter.input(0)).size());
    emitter.kernel("softmax_backward", attributes_,
                   {emitter.input(0), emitter.input(1), emitter.input(2), emitter.input(3)},
                   {emitter.output(0)}, options);
  }
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return 4.0 * static_cast<double>(inputs[0].size());
  }

 private:
  Attributes attributes_;
};

/// logits, labels -> loss, lse.
class CrossEntropy : public Operation {
 public:
  explicit CrossEntropy(Attributes attributes) : attributes_(std::move(attributes)) {}
  std::string type() const override { return "softmax_cross_entropy"; }
  Attributes attributes() const override { return attributes_; }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override;
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                               std::span<const Tensor> output_gradients) const override {
    TESSERA_CHECK(output_gradients[0] && !output_gradients[1],
                  "the cross-entropy's log-sum-exp has no gradient");
    return {inputs[0].graph().add1(std::make_shared<CrossEntropyGradient>(attributes_),
                                   {inputs[0], outputs[1], inputs[1], output_gradients[0]}),
            Tensor()};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    return candidate_strategies(context);
  }
  void lower(program::Emitter& emitter) const override;
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return 4.0 * static_cast<double>(inputs[0].size());
  }

 private:
  Attributes attributes_;
};

std::vector<TensorSpec> CrossEntropy::infer(std::span<const TensorSpec> inputs) const {
  const Shape &logits = inputs[0].shape, &labels = inputs[1].shape;
  check_user(logits.rank() >= 1,
             "softmax_cross_entropy: the logits are a scalar; they need a "
             "vocabulary dim");
  const Shape rows = logits.without(logits[logits.rank() - 1].name);
  check_user(labels == rows, "softmax_cross_entropy: labels are ", labels.to_string(),
             ", for logits ", logits.to_string(), " they must be ", rows.to_string());
  check_user(inputs[1].dtype == DType::i32, "softmax_cross_entropy: labels have dtype ",
             name_of(inputs[1].dtype), ", they must be i32");
  const TensorSpec statistic{rows, statistics_dtype(inputs[0].dtype)};
  return {statistic, statistic};
}

void CrossEntropy::lower(program::Emitter& emitter) const {
  const auto logits = emitter.input(0), labels = emitter.input(1);
  const auto buffer = emitter.buffer(logits);
  const Shape& shape = buffer.spec.shape;
  const int vocab = shape.rank() - 1;
  const Shape rows = shape.without(shape[vocab].name);
  const DType dtype = statistics_dtype(buffer.spec.dtype);
  const auto cuts = mesh_dims_of(buffer.placement, vocab);

  const auto maxima =
      emitter.temporary("max", {rows, dtype}, mapped(buffer.placement, dim_map(shape, rows)));
  program::Emitter::KernelOptions options;
  options.flops = static_cast<double>(emitter.local_shape(logits).size());
  emitter.kernel("softmax_max", {}, {logits}, {maxima}, options);
  emitter.all_reduce(program::ReduceOp::max, cuts, {maxima});

  // The sum of all logits is only needed to smooth labels.
  std::vector<Dim> dims{{"_sum", attributes_.real("smoothing") > 0 ? 3 : 2}};
  dims.insert(dims.end(), rows.begin(), rows.end());
  const Shape sums_shape(std::move(dims));
  const auto sums = emitter.temporary("sums", {sums_shape, dtype},
                                      mapped(buffer.placement, dim_map(shape, sums_shape)));
  options.flops *= 3;
  emitter.kernel("softmax_sums", {}, {logits, maxima, labels}, {sums}, options);
  emitter.all_reduce(program::ReduceOp::sum, cuts, {sums});
  emitter.kernel("softmax_finish", attributes_, {maxima, sums, labels},
                 {emitter.output(0), emitter.output(1)});
}

}  // namespace

Tensor softmax_cross_entropy(Tensor logits, Tensor labels, const CrossEntropyOptions& options) {
  install();
  const Shape& shape = logits.shape();
  const std::int64_t vocab = shape.rank() > 0 ? shape[shape.rank() - 1].size : 0;
  return logits.graph().add(
      std::make_shared<CrossEntropy>(Attributes{
          {"smoothing", options.smoothing}, {"z_loss", options.z_loss}, {"vocab", vocab}}),
      {logits, labels})[0];
}

}  // namespace tessera::ops
