// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/fill.hpp"

#include "tessera/ops/strategies.hpp"
#include "tessera/program/emitter.hpp"

namespace tessera::ops {

Attributes Fill::attributes() const {
  return {{"value", value_},
          {"shape", spec_.shape.to_string()},
          {"dtype", std::string(name_of(spec_.dtype))}};
}

std::vector<TensorSpec> Fill::infer(std::span<const TensorSpec>) const {
  return {spec_};
}

std::vector<Tensor> Fill::gradient(std::span<const Tensor>, std::span<const Tensor>,
                                   std::span<const Tensor>) const {
  return {};
}

std::vector<Strategy> Fill::strategies(const StrategyContext& context) const {
  return passing_cuts(context, [](const std::string&) { return true; });
}

void Fill::lower(program::Emitter& emitter) const {
  emitter.kernel("fill", {{"value", value_}}, {}, {emitter.output(0)});
}

}  // namespace tessera::ops
