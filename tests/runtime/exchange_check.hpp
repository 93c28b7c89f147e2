// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/comm/collectives.hpp"
#include "tessera/program/program.hpp"

namespace tessera::test {

/// A program of exchanges: random windows of one or two dims of a tensor "x" of random size and
/// placement in "window", and the accumulation of the windowed input "y" into "sum".
program::Program random_exchange(const MeshShape& mesh, unsigned seed);

/// Runs it on the local ranks and compares every element with plain index loops. Also: the inner
/// products of window with y and of x with sum, over all ranks, are equal. Returns what is wrong.
std::vector<std::string> check_exchange(const program::Program& program,
                                        comm::Collectives& collectives);

/// A program that brings "x" of random size from one random placement to another, "y".
program::Program random_relayout(const MeshShape& mesh, unsigned seed);
/// Runs it and compares every element that the ranks hold. Returns what is wrong.
std::vector<std::string> check_relayout(const program::Program& program,
                                        comm::Collectives& collectives);

}  // namespace tessera::test
