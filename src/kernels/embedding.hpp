// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/embedding_plan.hpp"
#include "tessera/device/exec.hpp"

namespace tessera::kernels::portable {

void embedding_forward(const device::Exec& exec, const EmbeddingPlan& plan);
/// Adds each row's vectors in order of ids, rounds once, and touches no row without an id. Serves a
/// bf16 gradient on the host too.
void embedding_backward(const device::Exec& exec, const EmbeddingPlan& plan);

}  // namespace tessera::kernels::portable
