// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/data/loader.hpp"

namespace tessera::train {

struct Session;

/// Keeps what a group of an asynchronous run has lived through (environments and replay) beside the
/// checkpoint of so many steps: <run.dir>/checkpoints/group_<group>/step_<step>.h5. Collective over
/// the session's ranks.
void save_experience(const Session& session, std::int64_t group, std::int64_t step);

/// Gives the session the experience that goes with the weights in the file `checkpoint`: that in
/// the file itself, of a synchronous run; else the newest that the group kept by then; of fewer
/// groups theirs in turn. Returns where it stands; nothing if there is none, or none that is whole.
/// Collective.
std::optional<data::Position> load_experience(Session& session, const std::string& checkpoint,
                                              std::int64_t group);

}  // namespace tessera::train
