// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/graph/operation.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

std::vector<Tensor> Operation::gradient(std::span<const Tensor>, std::span<const Tensor>,
                                        std::span<const Tensor>) const {
  throw Error(concat("operation '", type(), "' has no gradient"));
}

std::vector<Strategy> Operation::strategies(const StrategyContext&) const {
  return {};
}

double Operation::flops(std::span<const Shape>, std::span<const Shape>) const {
  return 0;
}

}  // namespace tessera
