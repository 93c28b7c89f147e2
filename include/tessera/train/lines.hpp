// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/comm/world.hpp"

namespace tessera::train {

/// Lines of a text file, which rank 0 reads, without their ends. UserError, on all ranks, that
/// names the deck key if the file cannot be read or has no line. Collective.
std::vector<std::string> read_lines(const comm::World& world, const std::string& key,
                                    const std::string& file);

}  // namespace tessera::train
