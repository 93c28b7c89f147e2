// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "storage.hpp"
#include "tessera/program/program.hpp"

namespace tessera::plan {

/// Buckets whose tensors all live in gradients' memory are reduced there: Storage puts them side by
/// side. After bind_stores.
void reduce_in_place(program::Section& section, Storage& storage);

/// Makes flights of the collectives that steps need not wait for: each starts as soon as its
/// operands are complete and is finished before the first step that touches what it brings, or the
/// section's end. A few are under way at once; then the oldest is finished, or the next one waits,
/// so the memory that flights hold stays bounded. What nothing could hide stays as it is, and what
/// has less than `least_bytes`. After reduce_in_place.
void make_flights(program::Section& section, const MeshShape& mesh, std::int64_t least_bytes);

}  // namespace tessera::plan
