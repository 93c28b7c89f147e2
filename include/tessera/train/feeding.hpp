// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

#include "tessera/data/loader.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

/// What the deck says of reading; 0 epochs: endless.
data::LoaderConfig loader_config(const Session& session, std::int64_t epochs);

/// The next batch goes to `batch`, which keeps the last one if reading failed in this process.
Fed take_batch(data::Loader& loader, std::optional<data::Batch>& batch);

/// Gives a section its inputs of one micro-batch on all local ranks; the loader was made for
/// Session::inputs of this section. `micro`: which one, of those that the section holds.
void set_inputs(const Session& session, const std::string& section,
                const std::vector<data::TileData>& tiles, int micro = 0);

/// This process's shares of a section's metrics after it ran, as Session::metrics lists them.
std::vector<double> metric_shares(const Session& session, const std::string& section,
                                  int micro = 0);

}  // namespace tessera::train
