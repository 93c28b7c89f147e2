// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/graph/graph.hpp"
#include "tessera/optim/optim_config.hpp"

namespace tessera::optim {

/// Names of variables that belong to a weight.
std::string gradient_name(const std::string& weight);                       // gradient/<weight>
std::string slot_name(const std::string& slot, const std::string& weight);  // optimizer/<slot>/…
std::string average_name(const std::string& weight);                        // ema/<weight>

/// Adds one optimizer step to the graph of a section, for the trainable weights that one of
/// `patterns` (* and ?) matches: reads each one's gradient
/// variable, clips by the global norm, assigns weights, slots and averages. Feeds "lr" and "step"
/// (f64, from 1). Fetches "grad_norm" (before clipping) and "finite": if it is 0, a gradient holds
/// an infinity or NaN, and every variable keeps its value.
void build_update(Graph& graph, const OptimConfig& config,
                  const std::vector<std::string>& patterns = {"*"});
/// Names of the trainable weights that one of the patterns matches, in the order of declaration.
std::vector<std::string> trainable_weights(const VariableSet& variables,
                                           const std::vector<std::string>& patterns = {"*"});

}  // namespace tessera::optim
