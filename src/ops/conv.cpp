// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/conv.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/ops/einsum.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/exchange.hpp"
#include "tessera/ops/install.hpp"
#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"
#include "tessera/program/workspace.hpp"

namespace tessera::ops {
namespace {

std::int64_t outputs_of(const ConvDim& d, std::int64_t n, std::int64_t taps) {
  const std::int64_t room = n + d.before + d.after - (taps - 1) * d.dilation - 1;
  return room < 0 ? 0 : room / d.stride + 1;
}

/// Which of the three tensors of a convolution an operation computes from the other two.
enum class Role { y, x, filter };

/// The convolution that ties x, filter and y together, and their whole shapes.
struct Geometry {
  std::vector<ConvDim> space;
  int batch = 0;   ///< number of batch dims
  int groups = 0;  ///< and so on
  int in = 0;
  Shape x, filter, y;

  bool is_space(const std::string& name) const {
    return std::any_of(space.begin(), space.end(), [&](const ConvDim& d) { return d.dim == name; });
  }
  /// What each rank's outputs need of x.
  Windows windows() const {
    Windows windows(static_cast<std::size_t>(x.rank()));
    for (std::size_t s = 0; s < space.size(); ++s) {
      const ConvDim& d = space[s];
      const std::int64_t extent = (filter.size_of(d.kernel) - 1) * d.dilation + 1;
      // Outputs that read only the input at their own place need no neighbours.
      if (extent == 1 && d.stride == 1 && d.before == 0 && d.after == 0) continue;
      windows[static_cast<std::size_t>(x.index_of(d.dim))] =
          Window::sliding(y.size_of(d.dim), d.stride, d.before, extent, Window::Outside::clip);
    }
    return windows;
  }
};

Attributes kernel_attributes(const Geometry& g) {
  std::vector<std::int64_t> stride, dilation, before;
  for (const auto& d : g.space) {
    stride.push_back(d.stride);
    dilation.push_back(d.dilation);
    before.push_back(d.before);
  }
  return {{"batch", std::int64_t{g.batch}}, {"groups", std::int64_t{g.groups}},
          {"in", std::int64_t{g.in}},       {"stride", stride},
          {"dilation", dilation},           {"before", before}};
}

/// Extents of local tiles as the kernels see them.
program::ConvSize local_size(const Geometry& g, const Shape& x, const Shape& filter,
                             const Shape& y) {
  const auto merged = [](const Shape& shape, int from, int count) {
    std::int64_t n = 1;
    for (int d = from; d < from + count; ++d) n *= shape[d].size;
    return n;
  };
  const int space = static_cast<int>(g.space.size());
  program::ConvSize size;
  size.batch = merged(y, 0, g.batch);
  size.groups = merged(filter, space, g.groups);
  size.in = merged(filter, space + g.groups, g.in);
  size.out = merged(filter, space + g.groups + g.in, filter.rank() - space - g.groups - g.in);
  for (int s = 0; s < space; ++s) {
    const int d = 3 - space + s;
    const auto& dim = g.space[static_cast<std::size_t>(s)];
    size.x[d] = x[g.batch + s].size;
    size.y[d] = y[g.batch + s].size;
    size.taps[d] = filter[s].size;
    size.stride[d] = dim.stride;
    size.dilation[d] = dim.dilation;
  }
  return size;
}

/// x, filter -> y; y's gradient, filter -> x's; x, y's gradient -> filter's. All three are linear
/// in both inputs, and each one's gradients are the other two.
class Conv : public Operation {
 public:
  Conv(Role role, Geometry geometry, DType dtype)
      : role_(role), geometry_(std::move(geometry)), dtype_(dtype) {}

  std::string type() const override {
    return role_ == Role::y ? "conv" : role_ == Role::x ? "conv_input_grad" : "conv_filter_grad";
  }
  Attributes attributes() const override {
    Attributes attributes = kernel_attributes(geometry_);
    attributes.set("shape", result().to_string());
    return attributes.set("dtype", std::string(name_of(dtype_)));
  }
  std::vector<TensorSpec> infer(std::span<const TensorSpec>) const override {
    return {{result(), dtype_}};
  }
  std::vector<Tensor> gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                               std::span<const Tensor> output_gradients) const override;
  std::vector<Strategy> strategies(const StrategyContext& context) const override;
  void lower(program::Emitter& emitter) const override;
  double flops(std::span<const Shape> inputs, std::span<const Shape> outputs) const override {
    const Shape& x = role_ == Role::x ? outputs[0] : inputs[0];
    const Shape& filter = role_ == Role::filter ? outputs[0] : inputs[1];
    const Shape& y = role_ == Role::y ? outputs[0] : inputs[role_ == Role::x ? 0 : 1];
    return flops_of(local_size(geometry_, x, filter, y));
  }

 private:
  const Shape& result() const {
    return role_ == Role::y ? geometry_.y : role_ == Role::x ? geometry_.x : geometry_.filter;
  }
  static double flops_of(const program::ConvSize& size) {
    return 2.0 * static_cast<double>(size.batch) * static_cast<double>(program::conv_pixels(size)) *
           static_cast<double>(program::conv_taps(size)) * static_cast<double>(size.groups) *
           static_cast<double>(size.in) * static_cast<double>(size.out);
  }

  Role role_;
  Geometry geometry_;
  DType dtype_;
};

Tensor add_conv(Role role, const Geometry& geometry, Tensor a, Tensor b, DType dtype) {
  return a.graph().add1(std::make_shared<Conv>(role, geometry, dtype), {a, b});
}

std::vector<Tensor> Conv::gradient(std::span<const Tensor> inputs, std::span<const Tensor>,
                                   std::span<const Tensor> output_gradients) const {
  const Tensor a = inputs[0], b = inputs[1], d = cast(output_gradients[0], a.dtype());
  const DType of_a = gradient_dtype(a), of_b = gradient_dtype(b);
  switch (role_) {
    case Role::y:
      return {add_conv(Role::x, geometry_, d, b, of_a),
              add_conv(Role::filter, geometry_, a, d, of_b)};
    case Role::x:
      return {add_conv(Role::y, geometry_, d, b, of_a),
              add_conv(Role::filter, geometry_, d, a, of_b)};
    case Role::filter:
      return {add_conv(Role::x, geometry_, b, d, of_a), add_conv(Role::y, geometry_, a, d, of_b)};
  }
  return {};
}

std::vector<Strategy> Conv::strategies(const StrategyContext& context) const {
  std::vector<Strategy> strategies;
  const Windows windows = geometry_.windows();
  for (const auto& cut : candidate_cuts(context)) {
    const State out =
        result().contains(cut.name) ? state_under(cut, result()) : State::partial_sum();
    Strategy& strategy = strategies.emplace_back();
    strategy.inputs = states_under(cut, context.inputs);
    strategy.outputs = {out};
    if (geometry_.is_space(cut.name)) {
      const int dim = geometry_.x.index_of(cut.name);
      strategy.bytes = window_bytes({geometry_.x, context.inputs[0].dtype}, dim,
                                    windows[static_cast<std::size_t>(dim)], context.ways);
    }
  }
  // 16-bit partial sums lie in memory as f32, which a product of 16-bit numbers can't read.
  for (std::size_t i = 0; i < 2; ++i)
    if (context.inputs[i].dtype != DType::bf16) add_linear(strategies, context, i, {0});
  return strategies;
}

void Conv::lower(program::Emitter& emitter) const {
  const Windows windows = geometry_.windows();
  auto a = emitter.input(0), c = emitter.output(0);
  const auto b = emitter.input(1), result = c;
  if (role_ == Role::x) {
    c = emitter.windowed(c, windows);
  } else {
    a = emitter.exchange(a, windows);
  }
  const auto x = role_ == Role::x ? c : a;
  const auto filter = role_ == Role::filter ? c : b;
  const auto y = role_ == Role::y ? c : role_ == Role::x ? a : b;
  const program::ConvSize size = local_size(geometry_, emitter.local_shape(x),
                                            emitter.local_shape(filter), emitter.local_shape(y));
  const DType dtype = emitter.buffer(a).spec.dtype;
  program::Emitter::KernelOptions options;
  options.flops = flops_of(size);
  options.workspace_bytes = role_ == Role::y   ? program::conv_workspace(dtype, size)
                            : role_ == Role::x ? program::conv_input_grad_workspace(dtype, size)
                                               : program::conv_filter_grad_workspace(dtype, size);
  emitter.kernel(type(), kernel_attributes(geometry_), {a, b}, {c}, options);
  if (role_ == Role::x) emitter.accumulate(c, result);
}

void check_space(const std::vector<ConvDim>& space, const std::string& what) {
  check_user(!space.empty() && space.size() <= 3, what, " over ", space.size(),
             " dims; 1, 2 or 3 are possible");
  for (const auto& d : space) {
    check_user(d.stride >= 1 && d.dilation >= 1, what, ": along '", d.dim, "' stride is ", d.stride,
               " and dilation ", d.dilation, "; both must be at least 1");
  }
}

/// Roles of the dims. `image` is x, or y for a transposed convolution; `inner` and `outer` take the
/// filter's dims that the image has too, and those that it has not.
Geometry make_geometry(const std::vector<ConvDim>& space, const std::vector<std::string>& groups,
                       const Shape& image, const Shape& filter, std::vector<Dim>& batch,
                       std::vector<Dim>& group, std::vector<Dim>& inner, std::vector<Dim>& outer) {
  Geometry g;
  g.space = space;
  std::vector<std::string> taps;
  for (const auto& d : space) {
    image.index_of(d.dim);
    filter.index_of(d.kernel);
    check_user(!filter.contains(d.dim) && !image.contains(d.kernel), "conv: '", d.dim,
               "' must be a dim of the image alone and '", d.kernel, "' of the filter alone; they ",
               "are ", image.to_string(), " and ", filter.to_string(), "; rename one");
    taps.push_back(d.kernel);
  }
  for (const auto& name : groups)
    check_user(image.contains(name) && filter.contains(name), "conv: group dim '", name,
               "' must be in both image ", image.to_string(), " and filter ", filter.to_string());
  for (const auto& dim : image) {
    if (g.is_space(dim.name)) continue;
    if (!filter.contains(dim.name)) {
      batch.push_back(dim);
      continue;
    }
    check_user(filter.size_of(dim.name) == dim.size, "conv: '", dim.name, "' has size ", dim.size,
               " in ", image.to_string(), " and ", filter.size_of(dim.name), " in the filter ",
               filter.to_string());
    (lists(groups, dim.name) ? group : inner).push_back(dim);
  }
  for (const auto& dim : filter)
    if (!lists(taps, dim.name) && !image.contains(dim.name)) outer.push_back(dim);
  g.batch = static_cast<int>(batch.size());
  g.groups = static_cast<int>(group.size());
  return g;
}

Shape joined(std::initializer_list<const std::vector<Dim>*> parts) {
  std::vector<Dim> dims;
  for (const auto* part : parts) dims.insert(dims.end(), part->begin(), part->end());
  return Shape(std::move(dims));
}

void check_dtypes(Tensor image, Tensor filter) {
  check_user(is_floating(image.dtype()) && image.dtype() == filter.dtype(), "conv: '", image.name(),
             "' has dtype ", name_of(image.dtype()), ", the filter '", filter.name(), "' ",
             name_of(filter.dtype()), "; both must have one floating dtype");
}

}  // namespace

ConvDim padded(ConvDim dim, Padding padding, std::int64_t n, std::int64_t taps) {
  dim.before = dim.after = 0;
  if (padding == Padding::same) {
    const std::int64_t outputs = (n + dim.stride - 1) / dim.stride;
    const std::int64_t zeros =
        std::max<std::int64_t>((outputs - 1) * dim.stride + (taps - 1) * dim.dilation + 1 - n, 0);
    dim.before = zeros / 2;
    dim.after = zeros - dim.before;
  }
  return dim;
}

Tensor conv(Tensor x, Tensor filter, const std::vector<ConvDim>& space,
            const std::vector<std::string>& groups) {
  install();
  check_space(space, "conv");
  check_dtypes(x, filter);
  std::vector<Dim> batch, group, in, out, taps, from, to;
  Geometry g = make_geometry(space, groups, x.shape(), filter.shape(), batch, group, in, out);
  g.in = static_cast<int>(in.size());
  for (const auto& d : space) {
    const std::int64_t n = x.shape().size_of(d.dim), k = filter.shape().size_of(d.kernel);
    const std::int64_t outputs = outputs_of(d, n, k);
    check_user(outputs >= 1, "conv: '", d.dim, "' has ", n, " elements and ", d.before, " + ",
               d.after, " of padding, fewer than the ", (k - 1) * d.dilation + 1,
               " that a window of '", d.kernel, "' needs");
    taps.push_back({d.kernel, k});
    from.push_back({d.dim, n});
    to.push_back({d.dim, outputs});
  }
  g.x = joined({&batch, &from, &group, &in});
  g.filter = joined({&taps, &group, &in, &out});
  g.y = joined({&batch, &to, &group, &out});
  return add_conv(Role::y, g, einsum({x}, g.x), einsum({filter}, g.filter), x.dtype());
}

Tensor conv(Tensor x, Tensor filter, std::vector<ConvDim> space, Padding padding,
            const std::vector<std::string>& groups) {
  for (auto& d : space)
    d = padded(d, padding, x.shape().size_of(d.dim), filter.shape().size_of(d.kernel));
  return conv(x, filter, space, groups);
}

Tensor conv_transpose(Tensor y, Tensor filter, const std::vector<ConvDim>& space,
                      const std::vector<std::int64_t>& sizes,
                      const std::vector<std::string>& groups) {
  install();
  check_space(space, "conv_transpose");
  check_dtypes(y, filter);
  check_user(sizes.size() == space.size(), "conv_transpose: ", sizes.size(), " sizes for ",
             space.size(), " dims");
  std::vector<Dim> batch, group, in, out, taps, from, to;
  Geometry g = make_geometry(space, groups, y.shape(), filter.shape(), batch, group, out, in);
  g.in = static_cast<int>(in.size());
  for (std::size_t s = 0; s < space.size(); ++s) {
    const ConvDim& d = space[s];
    const std::int64_t n = y.shape().size_of(d.dim), k = filter.shape().size_of(d.kernel);
    const std::int64_t least = (n - 1) * d.stride + (k - 1) * d.dilation + 1 - d.before - d.after;
    check_user(sizes[s] >= 1 && outputs_of(d, sizes[s], k) == n, "conv_transpose: '", d.dim,
               "' of size ", n, " cannot come from size ", sizes[s], "; sizes from ", least, " to ",
               least + d.stride - 1, " are possible");
    taps.push_back({d.kernel, k});
    from.push_back({d.dim, sizes[s]});
    to.push_back({d.dim, n});
  }
  g.x = joined({&batch, &from, &group, &in});
  g.filter = joined({&taps, &group, &in, &out});
  g.y = joined({&batch, &to, &group, &out});
  return add_conv(Role::x, g, einsum({y}, g.y), einsum({filter}, g.filter), y.dtype());
}

}  // namespace tessera::ops
