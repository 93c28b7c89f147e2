// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/train/session.hpp"

namespace tessera::train {

/// What a run is, for people, printed before its first step: program, ranks, mesh, model, data,
/// memory and cost of a step, then warnings. `notes` (what was restored) stand before the warnings.
/// Collective; the text counts on rank 0.
std::string header_text(const Session& session, const std::vector<std::string>& notes);

}  // namespace tessera::train
