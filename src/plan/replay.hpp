// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/program/program.hpp"

namespace tessera::plan {

/// What one stage does at a place of its list: a step of its own or of all stages, or its half of a
/// message.
struct StageAction {
  enum class Kind : std::uint8_t { step, collective, send, receive };
  Kind kind = Kind::step;
  int step = 0;            ///< of the section
  int peer = -1;           ///< send, receive: the other stage
  std::int64_t bytes = 0;  ///< send, receive: of the largest tile
  std::vector<program::BufferId> reads;
  std::vector<program::BufferId> writes;
};
using StageList = std::vector<StageAction>;

/// The list of each stage: the section's steps that concern it.
std::vector<StageList> stage_lists(const program::Section& section, const MeshShape& mesh);

/// Plays all lists against each other, each stage until it must wait: a message until the other
/// side is at the same one, a collective over stages until all are there. Error that names stages
/// and steps if a message has no other side or another size there, if stages wait for each other,
/// or if one reads what it never computed or received.
void replay(const program::Section& section, const std::vector<StageList>& lists);

}  // namespace tessera::plan
