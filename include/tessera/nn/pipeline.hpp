// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tessera/graph/graph.hpp"

namespace tessera::nn {

struct PipelineOptions {
  std::int64_t stages = 2;
  std::string stage_dim = "stage";  ///< its rule puts each stage on a part of a mesh dim
  std::string micro_dim = "micro";  ///< of x: what passes through the stages one after the other
};

/// x [micro:M, dims…] through stages one after the other, as a pipeline (the vectorised form of Xu
/// et al., "GSPMD", 2021, section 3.3). `stage` is called for every beat on values [stage, dims…],
/// all stages at work at once on micro-batches of their own, and gives the same dims; weights that
/// belong to a stage have the dim `stage` (DenseOptions::experts). In M + S - 1 beats each
/// micro-batch passes all S stages; under a rule `stage:<mesh dim>` values go from one stage to the
/// next, and gradients back, by a message to the neighbour. S need not be the number of ranks.
///
/// The bubble: in (S - 1) / (M + S - 1) of its beats a stage works on what nobody reads. They count
/// in the plan's operations. `stage` must be a function of its argument and weights
/// alone (no dropout: its draws would be the same in each beat). Each beat is a
/// region (Graph::Region) that may be computed again in the backward pass. UserError if dims do not
/// fit.
Tensor pipeline(Tensor x, const PipelineOptions& options,
                const std::function<Tensor(Tensor)>& stage);

}  // namespace tessera::nn
