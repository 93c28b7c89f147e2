// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "section_planner.hpp"

namespace tessera::plan {

/// Joins chains of `pointwise` steps into one pass over memory, computes cheap ones (a bias added)
/// again where they are needed instead of storing them, and lets a product that is only cast to
/// f32 be written in f32 at once. Results are the same up to the rounding of what is not stored.
void fuse(Draft& draft);

}  // namespace tessera::plan
