// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/graph/tensor.hpp"
#include "tessera/program/program.hpp"

/// For operations that exchange elements with neighbours along a cut dim: what the exchange costs,
/// to be put into Strategy::bytes.
namespace tessera::ops {

/// Bytes that the rank that sends most sends if dim `dim` of all operands is cut `ways` times and
/// nothing else is.
double exchange_bytes(std::span<const TensorSpec> inputs, std::span<const TensorSpec> outputs,
                      int dim, const std::vector<program::ExchangeStep::Run>& runs,
                      std::int64_t ways);
/// The same of a step whose operands are indices into `buffers`, all split over mesh dim 0.
double sent_bytes(const std::vector<program::Buffer>& buffers, program::ExchangeStep step,
                  std::int64_t ways);
/// The same of the exchange that fills `window` of dim `dim` of x.
double window_bytes(const TensorSpec& x, int dim, const Window& window, std::int64_t ways);

}  // namespace tessera::ops
