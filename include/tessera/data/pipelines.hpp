// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <vector>

#include "tessera/data/samples.hpp"
#include "tessera/replicate/row_shares.hpp"

namespace tessera::data {

using SamplesPtr = std::shared_ptr<const Samples>;

/// Several pipelines as one: in each batch pipeline i gives the rows of block i of the replicas,
/// its samples in order. An epoch ends with the pipeline that takes the most batches; the others'
/// rows are empty by then, so every sample is taken once an epoch. One pipeline alone is returned
/// as it is. UserError unless all have the fields and the unit of the first.
SamplesPtr join_pipelines(std::vector<SamplesPtr> pipelines, const replicate::RowShares& shares);

}  // namespace tessera::data
