// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/feeder.hpp"

#include "tessera/train/data_feeder.hpp"
#include "tessera/train/replay_feeder.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

std::unique_ptr<Feeder> make_feeder(const Session& session) {
  if (session.settings.model->acts()) return std::make_unique<ReplayFeeder>(session);
  return std::make_unique<DataFeeder>(session);
}

}  // namespace tessera::train
