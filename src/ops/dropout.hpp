// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/graph/graph.hpp"

namespace tessera::ops {

/// Dropout by the draws of a stream's key (base/philox.hpp); dim `batch` of x counts rows, of which
/// the step has `batch_total`.
Tensor dropout_of_stream(Tensor x, double rate, std::int64_t key, int batch,
                         std::int64_t batch_total);

}  // namespace tessera::ops
