// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// Each registers the kernels of one file; src/kernels/registry.cpp calls them all.
namespace tessera::kernels {

void register_attention_kernels();
void register_conv_kernels();
void register_decoding_kernels();
void register_dropout_kernels();
void register_einsum_kernels();
void register_embedding_kernels();
void register_lookup_kernels();
void register_group_norm_kernels();
void register_moments_kernels();
void register_norm_kernels();
void register_pointwise_kernels();
void register_pool_kernels();
void register_position_kernels();
void register_random_kernels();
void register_reduce_kernels();
void register_scan_kernels();
void register_shape_kernels();
void register_softmax_kernels();
void register_top_k_kernels();

}  // namespace tessera::kernels
