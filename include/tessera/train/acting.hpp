// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/env/actors.hpp"
#include "tessera/env/replay.hpp"
#include "tessera/train/evaluation.hpp"

namespace tessera::train {

struct Session;

/// Where environments live: the placement of a tensor [environment].
Placement environment_placement(const Session& session);
/// True if a local rank speaks for its environments: others may hold copies of them.
bool speaks_for_environments(const Session& session, int local_rank);

/// One step of all environments of `actors`, which are env.count, by the section `act`. Collective.
void act(const Session& session, env::Actors& actors, env::Explore explore, env::Replay* replay);

/// Mean reward of `episodes` episodes without noise, the same ones in every call and on every mesh.
/// Collective; `watch` (may be null) is asked every hundred steps.
Evaluation evaluate_policy(const Session& session, std::int64_t episodes, const StopWatch* watch);

}  // namespace tessera::train
