// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tessera::train {

/// Bytes that this process's node, or the control group that it runs in, can still give;
/// a negative number if the system does not say. `root` is where /proc and /sys lie (tests).
double available_memory(const std::string& root = "");

/// UserError that says what is needed and what is there, and how to need less, if a node's ranks,
/// which need `bytes` each, do not fit into `available` (negative: unknown, no check).
void check_memory(std::span<const double> bytes, double available, const std::string& host);

}  // namespace tessera::train
