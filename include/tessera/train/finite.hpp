// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/train/session.hpp"

namespace tessera::train {

/// Index of the first element that is infinite or no number; -1 if all are finite.
std::int64_t first_nonfinite(DType dtype, const void* values, std::int64_t count);

/// Says where this step's gradients are not finite: the lowest rank, its first variable in order,
/// how many of its elements, and which other ranks have some. Equal on all ranks; collective.
/// "" if all gradients are finite.
std::string describe_nonfinite_gradients(const Session& session);

/// Error on all ranks, naming variable and rank, if a weight, slot or other state is not finite.
void require_finite_variables(const Session& session);

}  // namespace tessera::train
