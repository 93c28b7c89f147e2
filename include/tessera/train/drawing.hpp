// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "tessera/train/session.hpp"

namespace tessera::train {

/// True if the model draws samples (replicate::Model::draw) and sample.count asks for some.
bool can_draw(const Session& session);

/// Draws sample.count samples with the variables as they are and writes them to
/// <run.dir>/samples/step_<step>.h5, an array file that data.source = arrays reads: each field as
/// /train/NAME. They are made of the same random numbers at every step, and on every mesh. Returns
/// the file. Collective; UserError on all ranks if the file cannot be written.
std::string draw_samples(const Session& session, std::int64_t step);

}  // namespace tessera::train
