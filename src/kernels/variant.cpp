// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/kernels/variant.hpp"

#include "tessera/device/exec.hpp"

namespace tessera::kernels {
namespace {
bool portable_forced = false;
}

bool use_portable() {
  return portable_forced || !device::Exec::is_host();
}

void force_portable(bool on) {
  portable_forced = on;
}

}  // namespace tessera::kernels
