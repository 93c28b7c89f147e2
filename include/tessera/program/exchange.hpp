// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/program/program.hpp"

/// What an ExchangeStep moves between which ranks, by intersection of intervals.
namespace tessera::program {

/// The t in [0, run.count) for which the run's source element lies in `source` and its target
/// element in `target`; empty as {0, 0}.
Interval shared(const ExchangeStep::Run& run, const Interval& source, const Interval& target);

/// Runs that fill a window of a dim of n elements from that dim: one, and with `wrap` one for each
/// turn that the windows of [0, window.count) reach.
std::vector<ExchangeStep::Run> runs_of(const Window& window, std::int64_t n);
/// The runs of the adjoint: sources and targets change places.
std::vector<ExchangeStep::Run> reversed(std::vector<ExchangeStep::Run> runs);

/// What one rank of each group (the ranks along the step's mesh dims, row-major) exchanges with the
/// others: elements along the step's dim, and messages.
struct ExchangeLoad {
  std::vector<std::int64_t> sent;
  std::vector<std::int64_t> received;
  std::vector<std::int64_t> messages;  ///< sent
};
/// In time proportional to the group's messages, however large the mesh.
ExchangeLoad load_of(const std::vector<Buffer>& buffers, const ExchangeStep& step,
                     const MeshShape& mesh);

/// Coordinates of member `index` of the group along `mesh_dims`, written into `at`.
void set_member(const MeshShape& mesh, const std::vector<int>& mesh_dims, std::int64_t index,
                Coordinates& at);

}  // namespace tessera::program
