// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tessera::data {

/// Element `index` of a pseudo-random permutation of [0, size) that `key` names, without storing
/// it: a Feistel network on the smallest power of two that holds `size`, walked until the value is
/// below it (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002), with Philox
/// as round function.
std::int64_t permute(std::int64_t index, std::int64_t size, std::uint64_t key);

}  // namespace tessera::data
