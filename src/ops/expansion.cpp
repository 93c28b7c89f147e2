// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/ops/expansion.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/ops/shape_ops.hpp"

namespace tessera::ops {
namespace {

/// The tensors under handles of their own, so that each has a gradient of its own where one tensor
/// is two operands.
std::vector<Tensor> distinct(Tensor first, const std::vector<Tensor>& others) {
  std::vector<Tensor> result{first};
  for (const auto& tensor : others) {
    const bool seen = std::find(result.begin(), result.end(), tensor) != result.end();
    result.push_back(seen ? rename(tensor, std::vector<std::pair<std::string, std::string>>{})
                          : tensor);
  }
  return result;
}

}  // namespace

std::vector<Tensor> gradient_of_gradient(const Expansion& expand, Tensor dy,
                                         const std::vector<Tensor>& operands,
                                         const std::vector<Tensor>& slopes) {
  TESSERA_CHECK(slopes.size() == operands.size(), "gradient_of_gradient: ", slopes.size(),
                " slopes for ", operands.size(), " operands");
  Graph& graph = dy.graph();
  const std::vector<Tensor> leaves = distinct(dy, operands);
  const std::vector<Tensor> own(leaves.begin() + 1, leaves.end());
  const std::size_t first = graph.nodes().size();
  const Tensor y = expand(own);
  const auto gradients = pull_back(graph, first, {y}, {leaves[0]}, own);
  std::vector<Tensor> outputs, output_gradients;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (!slopes[i] || !gradients[i]) continue;
    outputs.push_back(gradients[i]);
    output_gradients.push_back(cast(slopes[i], gradients[i].dtype()));
  }
  return pull_back(graph, first, outputs, output_gradients, leaves);
}

}  // namespace tessera::ops
