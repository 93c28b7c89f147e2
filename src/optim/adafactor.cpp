// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <optional>

#include "optim/rules.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/reduce.hpp"
#include "tessera/optim/update.hpp"

namespace tessera::optim {
namespace {

using ops::PointOp;
using ops::Value;

constexpr double kEpsilon1 = 1e-30;  // added to the squared gradient
constexpr double kEpsilon2 = 1e-3;   // smallest RMS of a weight that the rate is scaled by

/// Names of the two largest dims, the largest first, if both reach `size`.
std::optional<std::pair<std::string, std::string>> factored_dims(const Shape& shape,
                                                                 std::int64_t size) {
  std::vector<Dim> dims = shape.dims();
  std::stable_sort(dims.begin(), dims.end(),
                   [](const Dim& a, const Dim& b) { return a.size > b.size; });
  if (dims.size() < 2 || dims[1].size < size) return std::nullopt;
  return std::pair(dims[0].name, dims[1].name);
}

/// finite ? decay old + (1 - decay) sample : old.
Tensor mixed(const WeightUpdate& update, Tensor old, Tensor sample, const std::string& name) {
  return ops::pointwise1({old, sample, update.scalars.decay, update.scalars.finite},
                         [](std::span<const Value> in) {
                           return select(in[3], in[2] * in[0] + (1.0 - in[2]) * in[1], in[0]);
                         },
                         {.shape = old.shape(), .dtypes = {old.dtype()}, .name = name});
}

/// g^2 + epsilon1, of the clipped gradient.
Tensor squared(const WeightUpdate& update) {
  std::vector<Tensor> inputs{update.gradient};
  if (update.scalars.clip) inputs.push_back(update.scalars.clip);
  return ops::pointwise1(inputs,
                         [](std::span<const Value> in) {
                           const Value g = in.size() > 1 ? in[0] * in[1] : in[0];
                           return g * g + kEpsilon1;
                         },
                         {.shape = update.gradient.shape(), .dtypes = {}, .name = "squared"});
}

/// The gradient over the root of its second moments.
Tensor normalised(const WeightUpdate& update, const std::vector<Tensor>& factors) {
  std::vector<Tensor> inputs{update.gradient};
  inputs.insert(inputs.end(), factors.begin(), factors.end());
  if (update.scalars.clip) inputs.push_back(update.scalars.clip);
  return ops::pointwise1(inputs,
                         [&](std::span<const Value> in) {
                           Value x = in[0];
                           for (std::size_t i = 1; i <= factors.size(); ++i)
                             x = x * in[i].apply(PointOp::rsqrt);
                           return in.size() > factors.size() + 1 ? x * in.back() : x;
                         },
                         {.shape = update.weight.shape(), .dtypes = {}, .name = "direction"});
}

Tensor factored_direction(const WeightUpdate& update, const std::string& dim0,
                          const std::string& dim1) {
  const Shape& shape = update.weight.shape();
  const Shape rows = shape.without(dim0), columns = shape.without(dim1);
  const Tensor square = squared(update);
  const Tensor row = mixed(update, update.slot("row", rows), ops::reduce_mean(square, rows), "row");
  const Tensor column =
      mixed(update, update.slot("column", columns), ops::reduce_mean(square, columns), "column");
  update.assign_slot("row", row);
  update.assign_slot("column", column);
  const Tensor mean = ops::reduce_mean(row, rows.without(dim1));
  return normalised(update, {ops::divide(row, mean), column});
}

Tensor full_direction(const WeightUpdate& update) {
  const Tensor variance =
      mixed(update, update.slot("variance", update.weight.shape()), squared(update), "variance");
  update.assign_slot("variance", variance);
  return normalised(update, {variance});
}

/// Root of the mean square, a scalar.
Tensor rms(Tensor x) {
  const double size = static_cast<double>(std::max<std::int64_t>(1, x.shape().size()));
  return ops::pointwise1(
      {ops::reduce_sum_squares(x, Shape{})},
      [&](std::span<const Value> in) { return ((1 / size) * in[0]).apply(PointOp::sqrt); },
      {.shape = {}, .dtypes = {}, .name = "rms"});
}

}  // namespace

void update_by_adafactor(const WeightUpdate& update) {
  const OptimConfig& config = update.config;
  const auto dims = factored_dims(update.weight.shape(), config.factored_size);
  const Tensor x =
      dims ? factored_direction(update, dims->first, dims->second) : full_direction(update);
  std::vector<Tensor> inputs{update.weight, x, update.scalars.lr, update.scalars.finite, rms(x)};
  if (config.scale_by_weight) inputs.push_back(rms(update.weight));
  const std::size_t average = inputs.size();
  if (config.ema > 0) {
    inputs.push_back(update.graph().read(average_name(update.variable.name)));
    inputs.push_back(update.scalars.first);
  }
  const auto results = ops::pointwise(
      inputs,
      [&](std::span<const Value> in) {
        const Value w = in[0];
        const Value shrink =
            ((1 / config.clip_update) * in[4]).apply(PointOp::maximum, w.constant(1));
        Value rate = in[2];
        if (config.scale_by_weight)
          rate = rate * in[5].apply(PointOp::maximum, w.constant(kEpsilon2));
        Value step = in[1] / shrink;
        if (update.weight_decay > 0) step = step + update.weight_decay * w;
        std::vector<Value> stores{select(in[3], w - rate * step, w)};
        if (config.ema > 0)
          stores.push_back(averaged(config, in[average], w, stores[0], in[average + 1], in[3]));
        return stores;
      },
      {.shape = update.weight.shape(), .dtypes = {}, .name = update.variable.name});
  update.graph().assign(update.variable.name, results[0]);
  if (config.ema > 0) update.graph().assign(average_name(update.variable.name), results[1]);
}

}  // namespace tessera::optim
