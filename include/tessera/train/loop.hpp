// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <iosfwd>

#include "tessera/train/backend.hpp"
#include "tessera/train/settings.hpp"
#include "tessera/train/stops.hpp"

namespace tessera::train {

/// The one training loop, for every model and on every backend. Returns the exit code: kDone when
/// all steps are done or the stop file ended the run, kResumeMe after a signal or at the end of
/// the wall time (saved; the same command with train.resume=auto goes on), kFailure if a resumed
/// run was stopped before it did a single new step. UserError and Error, the same on all ranks.
ExitCode train(Backend& backend, Settings& settings, std::ostream& out);

}  // namespace tessera::train
