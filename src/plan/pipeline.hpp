// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tessera/program/program.hpp"

namespace tessera::plan {

/// The section of a step's first micro-batch and that of the others, as one section that runs
/// `count` micro-batches as a pipeline: each stage goes through its forward and backward passes in
/// the order 1F1B (Narayanan et al., "PipeDream", 2019; "Efficient Large-Scale Language Model
/// Training on GPU Clusters", 2021, its schedule without interleaving), so at most `stages` - stage
/// micro-batches wait for their backward pass. What a micro-batch computes is its own copy of the
/// section's buffers; variables are shared, and what is read and written of them comes in the order
/// in which the sections would follow each other. If values go back and forth between stages so
/// that no such order exists, the micro-batches follow each other.
///
/// Memory is planned afterwards.
program::Section join_micro_batches(const program::Section& first, const program::Section& next,
                                    int count, int stages);

}  // namespace tessera::plan
