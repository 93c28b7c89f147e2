// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tessera/data/corpus.hpp"
#include "tessera/io/run_folder.hpp"
#include "tessera/train/session.hpp"
#include "tessera/train/state.hpp"
#include "tessera/train/stops.hpp"

namespace tessera::train {

/// What stands before the first step.
struct Start {
  data::DataIdentity data;
  std::unique_ptr<io::RunFolder> folder;  ///< on rank 0 only
  RunState state;
  Restored restored;
};

/// Takes the run's folder, gives the variables their values and stores the deck. `watch` learns
/// what a save is expected to take. Collective; UserErrors are thrown by all ranks alike.
Start start_run(Session& session, StopWatch& watch);

/// The exit code of a run that was stopped, and what it says. `in_vain`: it was resumed and did not
/// do a single new step.
ExitCode end_stopped(const std::function<void(const std::string&)>& say, const StopWatch& watch,
                     Stop stop, bool in_vain);

}  // namespace tessera::train
