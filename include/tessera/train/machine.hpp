// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "tessera/plan/report.hpp"

namespace tessera::train {

/// What a machine does, as the file plan.machine says it (section [machine]).
struct Machine {
  double flops = 0;      ///< operations that a rank does in a second
  double bandwidth = 0;  ///< bytes that a rank sends in a second
  double latency = 0;    ///< seconds of one collective, however small

  /// UserError naming the file and the key.
  static Machine read(const std::string& file);
  /// Seconds of a step: operations, bytes and latencies one after the other, nothing overlapped.
  double step_seconds(const plan::Report& report) const;
};

}  // namespace tessera::train
