// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tessera/shape/tile.hpp"

namespace tessera::replicate {

/// Which rows of a step's batch each replica has in each micro-batch: replica r those of block r of
/// the batch, in order, so that a step sees the same rows whatever the number of replicas. Where
/// sizes do not divide, places of a replica stay empty: they are padded with weight 0.
struct RowShares {
  std::int64_t batch = 0;  ///< rows of the step
  std::int64_t micro_batches = 1;
  std::int64_t replicas = 1;

  /// Rows of a replica in a micro-batch, of the replica with most.
  std::int64_t rows() const;
  /// The rows of a replica in the step.
  Interval of_replica(std::int64_t replica) const { return block(batch, replicas, replica); }
  std::int64_t replica_of(std::int64_t row) const { return ((row + 1) * replicas - 1) / batch; }
  struct Place {
    std::int64_t micro = 0;
    std::int64_t replica = 0;
    std::int64_t row = 0;  ///< of the replica's micro-batch
  };
  Place place_of(std::int64_t row) const;

  /// UserError that names the sizes if places would stay empty and `uneven` does not allow it.
  void check(bool uneven) const;
};

}  // namespace tessera::replicate
