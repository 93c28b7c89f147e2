// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tessera/graph/graph.hpp"

namespace tessera::ops {

/// The primitive expansion of a composite operation: its result out of its operands, written in
/// operations that have gradients of any order.
using Expansion = std::function<Tensor(std::span<const Tensor> operands)>;

/// For an operation that computes a composite's gradient in one step and is differentiated itself:
/// the composite is expanded and differentiated twice. `dy` is the gradient of the composite's
/// result that the step was given, `slopes` are the gradients towards the gradients of the
/// operands that it gave (empty where nothing depends on one). Result: the gradients towards dy and
/// each operand; empty where there is none.
std::vector<Tensor> gradient_of_gradient(const Expansion& expand, Tensor dy,
                                         const std::vector<Tensor>& operands,
                                         const std::vector<Tensor>& slopes);

}  // namespace tessera::ops
