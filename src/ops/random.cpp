// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/random.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/pointwise.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {
namespace {

/// One kernel call without inputs on each rank's tile.
class Made : public Operation {
 public:
  Made(std::string kernel, Attributes attributes, TensorSpec spec)
      : kernel_(std::move(kernel)), attributes_(std::move(attributes)), spec_(std::move(spec)) {}
  std::string type() const override { return kernel_; }
  Attributes attributes() const override {
    Attributes all = attributes_;
    all.set("shape", spec_.shape.to_string());
    all.set("dtype", std::string(name_of(spec_.dtype)));
    return all;
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec>) const override { return {spec_}; }
  std::vector<Tensor> gradient(std::span<const Tensor>, std::span<const Tensor>,
                               std::span<const Tensor>) const override {
    return {};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    return passing_cuts(context, [](const std::string&) { return true; });
  }
  void lower(program::Emitter& emitter) const override {
    emitter.kernel(kernel_, attributes_, {}, {emitter.output(0)});
  }

 private:
  std::string kernel_;
  Attributes attributes_;
  TensorSpec spec_;
};

Tensor draw(Graph& graph, const char* kernel, const TensorSpec& spec, double mean, double scale,
            const DrawOptions& options) {
  install();
  check_user(is_floating(spec.dtype), kernel, ": the dtype ", name_of(spec.dtype),
             " is not a floating type; draw in f32 and cast");
  const auto batch = spec.shape.find(options.batch_dim);
  const auto key = stream_key(options.seed, hash_text(graph.scoped(options.name)));
  std::int64_t total = options.batch_total;
  if (batch && total == 0) total = spec.shape[*batch].size;
  const Attributes attributes{{"mean", mean},
                              {"scale", scale},
                              {"key", static_cast<std::int64_t>(key)},
                              {"each_step", std::int64_t{1}},
                              {"batch_dim", std::int64_t{batch.value_or(-1)}},
                              {"batch_total", total}};
  return graph.add1(std::make_shared<Made>(kernel, attributes, spec), {}, options.name);
}

}  // namespace

Tensor random_uniform(Graph& graph, const TensorSpec& spec, double low, double high,
                      const DrawOptions& options) {
  check_user(low <= high, "random_uniform: the range [", low, ", ", high, "] is empty");
  return draw(graph, "random_uniform", spec, 0.5 * (low + high), 0.5 * (high - low), options);
}

Tensor random_normal(Graph& graph, const TensorSpec& spec, double mean, double deviation,
                     const DrawOptions& options) {
  check_user(deviation >= 0, "random_normal: the standard deviation ", deviation, " is negative");
  return draw(graph, "random_normal", spec, mean, deviation, options);
}

Tensor random_bernoulli(Graph& graph, const TensorSpec& spec, double probability,
                        const DrawOptions& options) {
  check_user(probability >= 0 && probability <= 1, "random_bernoulli: the probability ",
             probability, " is not in [0, 1]");
  // In (-1, 1), where f32 holds every draw exactly.
  const Tensor uniform = draw(graph, "random_uniform", {spec.shape, DType::f32}, 0, 1, options);
  return pointwise1(
      {uniform},
      [=](auto in) { return in[0].apply(PointOp::less, in[0].constant(2 * probability - 1)); },
      {.shape = spec.shape, .dtypes = {spec.dtype}, .name = options.name});
}

Tensor range(Graph& graph, const Dim& dim, DType dtype, double start, double step) {
  install();
  return graph.add1(std::make_shared<Made>("range", Attributes{{"start", start}, {"step", step}},
                                           TensorSpec{Shape{dim}, dtype}),
                    {}, "range");
}

}  // namespace tessera::ops
