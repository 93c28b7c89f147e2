// SPDX-License-Identifier: BSD-3-Clause
#include <map>

#include "optim/rules.hpp"
#include "tessera/optim/update.hpp"

namespace tessera::optim {
namespace {

using ops::PointOp;
using ops::Value;

/// Operands of an update by name; the Values of their elements once the code is built.
class Operands {
 public:
  void add(const std::string& name, Tensor tensor) {
    if (!tensor) return;
    index_[name] = tensors_.size();
    tensors_.push_back(tensor);
  }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  bool has(const std::string& name) const { return index_.contains(name); }
  Value value(std::span<const Value> in, const std::string& name) const {
    return in[index_.at(name)];
  }

 private:
  std::vector<Tensor> tensors_;
  std::map<std::string, std::size_t> index_;
};

std::vector<std::string> slots_of(const OptimConfig& config) {
  if (config.name == "momentum") return {"velocity"};
  if (config.name == "adam" || config.name == "adamw") return {"mean", "variance"};
  return {};
}

/// The step before the learning rate; appends the slots' new values.
Value direction(const OptimConfig& config, const std::function<Value(const char*)>& at, Value g,
                std::vector<Value>& slots) {
  if (config.name == "momentum") {
    slots.push_back(config.momentum * at("velocity") + g);
    return config.nesterov ? g + config.momentum * slots[0] : slots[0];
  }
  if (config.name == "adam" || config.name == "adamw") {
    const Value mean = config.beta1 * at("mean") + (1 - config.beta1) * g;
    const Value variance = config.beta2 * at("variance") + (1 - config.beta2) * (g * g);
    slots = {mean, variance};
    const Value root = (variance * at("correct2")).apply(PointOp::sqrt);
    return (mean * at("correct1")) / (root + config.epsilon);
  }
  return g;
}

}  // namespace

void update_by_moments(const WeightUpdate& update) {
  const OptimConfig& config = update.config;
  const auto slots = slots_of(config);
  Operands operands;
  operands.add("weight", update.weight);
  for (const auto& slot : slots) operands.add(slot, update.slot(slot, update.weight.shape()));
  if (config.ema > 0) {
    operands.add("average", update.graph().read(average_name(update.variable.name)));
    operands.add("first", update.scalars.first);
  }
  operands.add("gradient", update.gradient);
  operands.add("lr", update.scalars.lr);
  operands.add("finite", update.scalars.finite);
  operands.add("clip", update.scalars.clip);
  operands.add("correct1", update.scalars.correct1);
  operands.add("correct2", update.scalars.correct2);

  const auto results = ops::pointwise(
      operands.tensors(),
      [&](std::span<const Value> in) {
        const auto at = [&](const char* name) { return operands.value(in, name); };
        const Value w = at("weight"), finite = at("finite");
        const Value g = operands.has("clip") ? at("gradient") * at("clip") : at("gradient");
        std::vector<Value> fresh;
        Value step = direction(config, at, g, fresh);
        if (update.weight_decay > 0) step = step + update.weight_decay * w;
        const Value moved = w - at("lr") * step;
        std::vector<Value> stores{select(finite, moved, w)};
        for (std::size_t s = 0; s < slots.size(); ++s)
          stores.push_back(select(finite, fresh[s], at(slots[s].c_str())));
        if (config.ema > 0)
          stores.push_back(averaged(config, at("average"), w, stores[0], at("first"), finite));
        return stores;
      },
      {.shape = update.weight.shape(), .dtypes = {}, .name = update.variable.name});
  update.graph().assign(update.variable.name, results[0]);
  for (std::size_t s = 0; s < slots.size(); ++s) update.assign_slot(slots[s], results[s + 1]);
  if (config.ema > 0) update.graph().assign(average_name(update.variable.name), results.back());
}

}  // namespace tessera::optim
