// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>

#include "tessera/comm/mailbox.hpp"
#include "tessera/train/backend.hpp"
#include "tessera/train/settings.hpp"
#include "tessera/train/stops.hpp"

namespace tessera::train {

/// What tests put between the parts of an asynchronous run that is simulated in one process.
struct AsyncHooks {
  std::function<bool(std::int64_t group)> is_stalled = {};  ///< asked before each of its turns
  std::function<double()> now = {};                         ///< the servers' clock
  std::shared_ptr<comm::Mailbox> mailbox = {};
};

/// Training with replicate.mode = async (src/train/ASYNC.md). Exit codes as of train(). Where
/// workers were lost under MPI it ends the process instead of returning: MPI would wait for them.
ExitCode train_async(Backend& backend, Settings& settings, StopWatch& watch, std::ostream& out,
                     const AsyncHooks& hooks = {});

}  // namespace tessera::train
