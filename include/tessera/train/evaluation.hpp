// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "tessera/data/samples.hpp"
#include "tessera/train/progress.hpp"
#include "tessera/train/stops.hpp"

namespace tessera::train {

struct Session;

struct Evaluation {
  ValidationRecord record;
  Stop stop = Stop::none;  ///< not none: it was interrupted and the record means nothing
};

/// Mean loss over the validation samples in order, each once: all of them, or the first
/// `max_batches` batches (0: all). Batches are summed up, so the result is the same on every mesh
/// and for every batch size, up to round-off. `watch` (may be null) is asked after each batch.
Evaluation evaluate(const Session& session, std::shared_ptr<const data::Samples> samples,
                    std::int64_t max_batches, const StopWatch* watch);

}  // namespace tessera::train
