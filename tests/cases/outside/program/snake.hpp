// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <tessera/graph/graph.hpp>

namespace outside {

/// x + sin(a x)^2 / a, an activation for periodic functions (Ziyin, Hartwig and Ueda, "Neural
/// Networks Fail to Learn Periodic Functions and How to Fix It", 2020). f32 or f64, any layout.
tessera::Tensor snake(tessera::Tensor x, double a);

/// Makes the kernels of `snake` known; call before the App runs.
void register_snake_kernels();

}  // namespace outside
