// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// Each registers the kernels of one file; src/kernels/registry.cpp calls them all.
namespace tessera::kernels {

void register_attention_kernels();
void register_einsum_kernels();
void register_pointwise_kernels();

}  // namespace tessera::kernels
