// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/pool.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/exchange.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {
namespace {

/// x [batch…, space…, channels…] and what becomes of it.
struct Pooling {
  std::vector<PoolDim> space;
  int batch = 0;
  Shape x, y;

  /// What each rank's outputs need of x.
  Windows windows() const {
    Windows windows(static_cast<std::size_t>(x.rank()));
    for (const auto& d : space) {
      if (d.window == 1 && d.stride == 1) continue;
      windows[static_cast<std::size_t>(x.index_of(d.dim))] =
          Window::sliding(y.size_of(d.dim), d.stride, d.before, d.window, Window::Outside::clip);
    }
    return windows;
  }
};

/// The maximum or mean over windows, and what their gradients need. `scatter` brings values of y's
/// shape to x's, `gather` the other way: by the places of x's maxima, or by shares of a mean.
enum class Kind { max, max_scatter, max_gather, average, average_scatter };

const char* kernel_of(Kind kind) {
  switch (kind) {
    case Kind::max:
      return "max_pool";
    case Kind::max_scatter:
      return "max_pool_scatter";
    case Kind::max_gather:
      return "max_pool_gather";
    case Kind::average:
      return "average_pool";
    case Kind::average_scatter:
      return "average_pool_scatter";
  }
  return "";
}

bool is_scatter(Kind kind) {
  return kind == Kind::max_scatter || kind == Kind::average_scatter;
}

class Pool : public Operation {
 public:
  Pool(Kind kind, Pooling pooling) : kind_(kind), pooling_(std::move(pooling)) {}

  std::string type() const override { return kernel_of(kind_); }
  Attributes attributes() const override {
    std::vector<std::int64_t> window, stride, before;
    for (const auto& d : pooling_.space) {
      window.push_back(d.window);
      stride.push_back(d.stride);
      before.push_back(d.before);
    }
    return {{"batch", std::int64_t{pooling_.batch}},
            {"window", window},
            {"stride", stride},
            {"before", before}};
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs) const override {
    return {{is_scatter(kind_) ? pooling_.x : pooling_.y, inputs[0].dtype}};
  }
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override;
  std::vector<Strategy> strategies(const StrategyContext& context) const override {
    auto strategies = passing_cuts(context, [](const std::string&) { return true; });
    const Windows windows = pooling_.windows();
    for (auto& strategy : strategies) {
      const auto dim = static_cast<std::size_t>(strategy.outputs[0].dim);
      if (!windows[dim].is_plain())
        strategy.bytes = window_bytes({pooling_.x, context.inputs[0].dtype}, static_cast<int>(dim),
                                      windows[dim], context.ways);
    }
    // 16-bit partial sums lie in memory as f32, which the kernels can't read.
    if (context.inputs[0].dtype == DType::bf16) return strategies;
    if (kind_ == Kind::average || kind_ == Kind::average_scatter)
      add_linear(strategies, context, 0, {0});
    if (kind_ == Kind::max_scatter || kind_ == Kind::max_gather)
      add_linear(strategies, context, 1, {0});
    return strategies;
  }
  void lower(program::Emitter& emitter) const override {
    const Windows windows = pooling_.windows();
    const bool scatters = is_scatter(kind_);
    std::vector<program::BufferId> inputs;
    for (int i = 0; i < emitter.inputs(); ++i) {
      const bool has_shape_of_y = scatters && i == emitter.inputs() - 1;
      inputs.push_back(has_shape_of_y ? emitter.input(i)
                                      : emitter.exchange(emitter.input(i), windows));
    }
    const auto result = emitter.output(0);
    const auto to = scatters ? emitter.windowed(result, windows) : result;
    program::Emitter::KernelOptions options;
    options.flops = static_cast<double>(
        emitter.local_shape(scatters ? inputs.back() : result).size() * window_size());
    emitter.kernel(type(), attributes(), inputs, {to}, options);
    if (scatters) emitter.accumulate(to, result);
  }
  double flops(std::span<const Shape> inputs, std::span<const Shape> outputs) const override {
    const Shape& y = is_scatter(kind_) ? inputs.back() : outputs[0];
    return static_cast<double>(y.size() * window_size());
  }

 private:
  std::int64_t window_size() const {
    std::int64_t size = 1;
    for (const auto& d : pooling_.space) size *= d.window;
    return size;
  }
  Tensor add(Kind kind, const std::vector<Tensor>& inputs) const {
    return inputs[0].graph().add1(std::make_shared<Pool>(kind, pooling_), inputs);
  }

  Kind kind_;
  Pooling pooling_;
};

/// All but the maximum itself are linear: their gradients are each other's adjoints.
std::vector<Tensor> Pool::gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                                   std::span<const Tensor> output_gradients) const {
  const Tensor d = output_gradients[0];
  switch (kind_) {
    case Kind::max:
      return {add(Kind::max_scatter, {inputs[0], d})};
    case Kind::max_scatter:
      return {Tensor(), add(Kind::max_gather, {inputs[0], d})};
    case Kind::max_gather:
      return {Tensor(), add(Kind::max_scatter, {inputs[0], d})};
    case Kind::average:
      return {add(Kind::average_scatter, {d})};
    case Kind::average_scatter:
      return {add(Kind::average, {d})};
  }
  return {};
}

void check_dim(const PoolDim& d) {
  check_user(d.window >= 1 && d.stride >= 1, "pool: along '", d.dim, "' the window is ", d.window,
             " and the stride ", d.stride, "; both must be at least 1");
  check_user(d.before >= 0 && d.before < d.window && d.after >= 0 && d.after < d.window,
             "pool: along '", d.dim, "' the padding is ", d.before, " and ", d.after,
             "; both must be below the window, ", d.window);
}

Tensor pool(Kind kind, Tensor x, const std::vector<PoolDim>& space) {
  install();
  check_user(!space.empty() && space.size() <= 3, "pool over ", space.size(),
             " dims; 1, 2 or 3 are possible");
  check_user(is_floating(x.dtype()), "pool: '", x.name(), "' has dtype ", name_of(x.dtype()),
             "; cast it to a floating one first");
  const Shape& shape = x.shape();
  int first = shape.rank();
  for (const auto& d : space) first = std::min(first, shape.index_of(d.dim));
  std::vector<Dim> from, to;
  const auto is_space = [&](const std::string& name) {
    return std::any_of(space.begin(), space.end(), [&](const PoolDim& d) { return d.dim == name; });
  };
  for (int i = 0; i < first; ++i) from.push_back(shape[i]);
  to = from;
  for (const auto& d : space) {
    check_dim(d);
    const std::int64_t n = shape.size_of(d.dim);
    const std::int64_t room = n + d.before + d.after - d.window;
    check_user(room >= 0, "pool: '", d.dim, "' has ", n, " elements and ", d.before, " + ", d.after,
               " of padding, fewer than the window, ", d.window);
    from.push_back({d.dim, n});
    to.push_back({d.dim, room / d.stride + 1});
  }
  for (int i = first; i < shape.rank(); ++i) {
    if (is_space(shape[i].name)) continue;
    from.push_back(shape[i]);
    to.push_back(shape[i]);
  }
  const Pooling pooling{space, first, Shape(from), Shape(to)};
  return x.graph().add1(std::make_shared<Pool>(kind, pooling), {einsum({x}, pooling.x)});
}

}  // namespace

PoolDim padded(PoolDim dim, Padding padding, std::int64_t n) {
  const ConvDim d = padded(ConvDim{dim.dim, "", dim.stride, 1, 0, 0}, padding, n, dim.window);
  dim.before = d.before, dim.after = d.after;
  return dim;
}

Tensor max_pool(Tensor x, const std::vector<PoolDim>& space) {
  return pool(Kind::max, x, space);
}

Tensor average_pool(Tensor x, const std::vector<PoolDim>& space) {
  return pool(Kind::average, x, space);
}

Tensor max_pool(Tensor x, std::vector<PoolDim> space, Padding padding) {
  for (auto& d : space) d = padded(d, padding, x.shape().size_of(d.dim));
  return max_pool(x, space);
}

Tensor average_pool(Tensor x, std::vector<PoolDim> space, Padding padding) {
  for (auto& d : space) d = padded(d, padding, x.shape().size_of(d.dim));
  return average_pool(x, space);
}

}  // namespace tessera::ops
