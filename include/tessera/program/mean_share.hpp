// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace tessera::program {

/// Attribute of a kernel step of which ranks have unequal shares, as causal attention over a cut
/// length: how much of the busiest rank's operations, KernelStep::flops, ranks have on average (1
/// without it). For the plan; kernels don't read it.
inline constexpr const char* kMeanShare = "mean_share";

}  // namespace tessera::program
