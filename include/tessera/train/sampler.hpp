// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/train/config.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

/// Draws one id from logits: divided by the temperature, from the top_k likeliest (0: all), by one
/// uniform number in (0, 1). Temperature 0 takes the likeliest. Equal logits: the lower id first.
std::int32_t draw(const std::vector<double>& logits, const SampleConfig& config, double uniform);

/// Text of sample.prompt and sample.length drawn tokens after it. The same on every mesh: all ranks
/// draw the same ids from the whole vocabulary's logits with numbers that are a function of
/// (sample.seed, position). Beyond data.length the oldest tokens are forgotten. UserError if the
/// model cannot sample. Collective.
std::string sample_text(const Session& session);

}  // namespace tessera::train
