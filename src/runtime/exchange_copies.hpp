// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "prepared.hpp"

namespace tessera::runtime {

/// The copies of an exchange step on the local ranks.
PreparedExchange prepare_exchange(const program::Section& section,
                                  const program::ExchangeStep& step, const Places& places);

}  // namespace tessera::runtime
