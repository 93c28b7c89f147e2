// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <optional>
#include <vector>

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

/// One weight's step. Its parts are called for all weights in turn, so that the sums over ranks
/// that all of them wait for are there at once, and share a message.
class Adafactor {
 public:
  explicit Adafactor(const WeightUpdate& update)
      : update_(update), dims_(factored_dims(update.weight.shape(), update.config.factored_size)) {}

  /// Means of the squared gradient, the sum of the weight's squares.
  void sum_squares();
  /// The second moments.
  void move_moments();
  /// The sum of the update's squares.
  void measure();
  void apply();

 private:
  bool clips() const { return static_cast<bool>(update_.scalars.clip); }
  /// finite ? decay old + (1 - decay) sample : old.
  Tensor mixed(const std::string& slot, Tensor sample);
  Tensor squared() const;
  /// Operands of direction.
  std::vector<Tensor> operands() const;
  /// The clipped gradient over the root of its second moments.
  Value direction(std::span<const Value> in) const;
  /// Root of the mean of the weight's elements, of a sum of squares.
  Value rms(Value squares) const;
  /// Divides an update that is too large.
  Tensor shrink() const;
  Tensor rate() const;

  const WeightUpdate& update_;
  std::optional<std::pair<std::string, std::string>> dims_;  // if factored
  Tensor row_, column_, full_;                               // samples, then moments
  Tensor row_mean_;
  Tensor weight_squares_, step_squares_;
};

Tensor Adafactor::mixed(const std::string& slot, Tensor sample) {
  const Tensor old = update_.slot(slot, sample.shape());
  const Tensor moment =
      ops::pointwise1({old, sample, update_.scalars.decay, update_.scalars.finite},
                      [](std::span<const Value> in) {
                        return select(in[3], in[2] * in[0] + (1.0 - in[2]) * in[1], in[0]);
                      },
                      {.shape = old.shape(), .dtypes = {old.dtype()}, .name = slot});
  update_.assign_slot(slot, moment);
  return moment;
}

/// g^2 + epsilon1, of the clipped gradient.
Tensor Adafactor::squared() const {
  std::vector<Tensor> inputs{update_.gradient};
  if (clips()) inputs.push_back(update_.scalars.clip);
  return ops::pointwise1(inputs,
                         [](std::span<const Value> in) {
                           const Value g = in.size() > 1 ? in[0] * in[1] : in[0];
                           return g * g + kEpsilon1;
                         },
                         {.shape = update_.gradient.shape(), .dtypes = {}, .name = "squared"});
}

void Adafactor::sum_squares() {
  if (update_.config.scale_by_weight)
    weight_squares_ = ops::reduce_sum_squares(update_.weight, Shape{});
  if (!dims_) return;
  const Shape& shape = update_.weight.shape();
  const Tensor square = squared();
  row_ = ops::reduce_mean(square, shape.without(dims_->first));
  column_ = ops::reduce_mean(square, shape.without(dims_->second));
}

void Adafactor::move_moments() {
  if (!dims_) {
    full_ = mixed("variance", squared());
    return;
  }
  row_ = mixed("row", row_);
  column_ = mixed("column", column_);
  row_mean_ = ops::reduce_mean(row_, row_.shape().without(dims_->second));
}

std::vector<Tensor> Adafactor::operands() const {
  std::vector<Tensor> operands{update_.gradient};
  if (dims_) {
    operands.push_back(ops::divide(row_, row_mean_));
    operands.push_back(column_);
  } else {
    operands.push_back(full_);
  }
  if (clips()) operands.push_back(update_.scalars.clip);
  return operands;
}

Value Adafactor::direction(std::span<const Value> in) const {
  Value x = in[0] * in[1].apply(PointOp::rsqrt);
  if (dims_) x = x * in[2].apply(PointOp::rsqrt);
  return clips() ? x * in[dims_ ? 3 : 2] : x;
}

void Adafactor::measure() {
  const Tensor x =
      ops::pointwise1(operands(), [&](std::span<const Value> in) { return direction(in); },
                      {.shape = update_.weight.shape(), .dtypes = {}, .name = "direction"});
  step_squares_ = ops::reduce_sum_squares(x, Shape{});
}

Value Adafactor::rms(Value squares) const {
  const double size = static_cast<double>(std::max<std::int64_t>(1, update_.weight.shape().size()));
  return ((1 / size) * squares).apply(PointOp::sqrt);
}

Tensor Adafactor::shrink() const {
  const double most = update_.config.clip_update;
  return ops::pointwise1(
      {step_squares_},
      [&](std::span<const Value> in) {
        return ((1 / most) * rms(in[0])).apply(PointOp::maximum, in[0].constant(1));
      },
      {.shape = {}, .dtypes = {}, .name = "shrink"});
}

Tensor Adafactor::rate() const {
  if (!update_.config.scale_by_weight) return update_.scalars.lr;
  return ops::pointwise1({update_.scalars.lr, weight_squares_},
                         [&](std::span<const Value> in) {
                           return in[0] *
                                  rms(in[1]).apply(PointOp::maximum, in[1].constant(kEpsilon2));
                         },
                         {.shape = {}, .dtypes = {}, .name = "rate"});
}

/// Computes the direction again: kept since `measure` it would take as much memory as all weights.
void Adafactor::apply() {
  const OptimConfig& config = update_.config;
  std::vector<Tensor> inputs = operands();
  const std::size_t weight = inputs.size();
  inputs.insert(inputs.end(), {update_.weight, update_.scalars.finite, shrink(), rate()});
  const std::size_t average = inputs.size();
  if (config.ema > 0) {
    inputs.push_back(update_.graph().read(average_name(update_.variable.name)));
    inputs.push_back(update_.scalars.first);
  }
  const auto results = ops::pointwise(
      inputs,
      [&](std::span<const Value> in) {
        const Value w = in[weight], finite = in[weight + 1];
        Value step = direction(in) / in[weight + 2];
        if (update_.weight_decay > 0) step = step + update_.weight_decay * w;
        std::vector<Value> stores{select(finite, w - in[weight + 3] * step, w)};
        if (config.ema > 0)
          stores.push_back(averaged(config, in[average], w, stores[0], in[average + 1], finite));
        return stores;
      },
      {.shape = update_.weight.shape(), .dtypes = {}, .name = update_.variable.name});
  update_.graph().assign(update_.variable.name, results[0]);
  if (config.ema > 0) update_.graph().assign(average_name(update_.variable.name), results[1]);
}

}  // namespace

void update_by_adafactor(const std::vector<WeightUpdate>& updates) {
  std::vector<Adafactor> weights(updates.begin(), updates.end());
  for (auto& weight : weights) weight.sum_squares();
  for (auto& weight : weights) weight.move_moments();
  for (auto& weight : weights) weight.measure();
  for (auto& weight : weights) weight.apply();
}

}  // namespace tessera::optim
