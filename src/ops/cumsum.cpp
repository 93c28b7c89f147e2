// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/cumsum.hpp"

#include "parts.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/strategies.hpp"

namespace tessera::ops {
namespace {

/// Linear; its gradient runs the other way.
class Cumsum : public Operation {
 public:
  Cumsum(std::string dim, CumsumOptions options) : dim_(std::move(dim)), options_(options) {}
  std::string type() const override { return "cumsum"; }
  Attributes attributes() const override {
    Attributes all = kernel_attributes(-1);
    all.set("dim", dim_);
    return all;
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    inputs[0].shape.index_of(dim_);
    return {inputs[0]};
  }
  std::vector<Tensor> gradient(std::span<const Tensor>, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override {
    return {cumsum(output_gradients[0], dim_,
                   {.exclusive = options_.exclusive, .reverse = !options_.reverse})};
  }
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    auto strategies = passing_cuts(context, [](const std::string&) { return true; });
    add_linear(strategies, context, 0, {0});
    return strategies;
  }
  void lower(program::Emitter& emitter) const override;
  double flops(std::span<const Shape> inputs, std::span<const Shape>) const override {
    return static_cast<double>(inputs[0].size());
  }

 private:
  Attributes kernel_attributes(int dim) const {
    return {{"dim", std::int64_t{dim}},
            {"exclusive", std::int64_t{options_.exclusive}},
            {"reverse", std::int64_t{options_.reverse}}};
  }
  std::string dim_;
  CumsumOptions options_;
};

void Cumsum::lower(program::Emitter& emitter) const {
  const auto x = emitter.input(0);
  const int dim = emitter.buffer(x).spec.shape.index_of(dim_);
  const Attributes attributes = kernel_attributes(dim);
  program::Emitter::KernelOptions options;
  options.flops = static_cast<double>(emitter.local_shape(x).size());
  options.in_place = {{0, 0}};
  std::vector<program::BufferId> inputs{x};
  if (!mesh_dims_of(emitter.buffer(x).placement, dim).empty()) {
    const auto own = new_parts(emitter, "total", x, dim, {}, DType::f64);
    emitter.kernel("scan_total", attributes, {x}, {own});
    inputs.push_back(own);
    inputs.push_back(gather_parts(emitter, x, dim, own));
  }
  emitter.kernel("scan", attributes, std::move(inputs), {emitter.output(0)}, options);
}

}  // namespace

Tensor cumsum(Tensor x, const std::string& dim, CumsumOptions options) {
  install();
  return x.graph().add1(std::make_shared<Cumsum>(dim, options), {x}, "cumsum");
}

}  // namespace tessera::ops
