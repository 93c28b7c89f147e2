// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/kernels/kernel.hpp"

namespace tessera::kernels {

/// The whole number in the feed that the attribute `feed` names; Error if there is no such feed.
std::int64_t fed_index(const Call& call);

}  // namespace tessera::kernels
