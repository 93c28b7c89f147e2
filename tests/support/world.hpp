// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/comm/environment.hpp"

namespace tessera::test {

/// MPI as the main function of the MPI tests has started it.
const comm::Environment& environment();
inline const comm::World& world() {
  return environment().world();
}

/// Whether something holds on all ranks: fails on all alike, so that none waits for a rank that
/// has left the test.
inline bool on_all_ranks(bool ok) {
  return world().max({ok ? 0.0 : 1.0})[0] == 0.0;
}

}  // namespace tessera::test
