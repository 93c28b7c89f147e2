// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/plan/machine.hpp"

namespace tessera::plan {

/// A measured piece of work.
struct Measured {
  Work work;
  double seconds = 0;
};

/// Seconds for each unit of each kind, none negative, that explain the measured times with the
/// least sum of squared *relative* errors (coordinate descent on the normal equations; units that
/// no sample varies share as it comes).
std::map<std::string, Units> fit_rates(const std::vector<Measured>& samples);

/// A measured collective over `members` ranks.
struct MeasuredCollective {
  program::CollectiveKind kind = program::CollectiveKind::all_reduce;
  double bytes = 0;
  double members = 2;
  double seconds = 0;
};
/// The same for collectives of one kind, in the terms of collective_seconds.
Link fit_link(const std::vector<MeasuredCollective>& samples);

}  // namespace tessera::plan
