// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/train/session.hpp"

namespace tessera::train {

/// What to do about a step that is not finite, for its message.
inline constexpr const char* kCureOfDivergence =
    "No checkpoint was written, the older ones stay. Lower optim.lr, set optim.clip_norm, or let "
    "such steps pass by train.on_nonfinite = skip";

/// Index of the first element that is infinite or no number; -1 if all are finite.
std::int64_t first_nonfinite(DType dtype, const void* values, std::int64_t count);

/// Says where a step is not finite: the ranks whose share of the loss is not, and for gradients the
/// lowest rank, its first variable in order, and which other ranks have some (a planned exchange
/// may have spread them). `loss_shares` are the local ranks'. Equal on all ranks; collective.
std::string describe_nonfinite(const Session& session, const std::vector<double>& loss_shares);

/// Error on all ranks, naming variable and rank, if a weight, slot or other state is not finite.
void require_finite_variables(const Session& session);

}  // namespace tessera::train
