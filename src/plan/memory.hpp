// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "section_planner.hpp"

namespace tessera::plan {

/// Binds assigned values to their variables' memory: computed there where nothing reads the old
/// value later, else copied at the end of the section.
void bind_stores(Draft& draft, const Storage& storage);

/// Live ranges, shared memory of in-place operands, and offsets (from 0) in the section's part of
/// the arena, workspaces included. Sets arena_bytes, workspace_bytes and flops.
void plan_memory(program::Section& section, const MeshShape& mesh = {}, int stages = 1);

}  // namespace tessera::plan
