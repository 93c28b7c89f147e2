// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/replicate/input.hpp"

#include <algorithm>

namespace tessera::replicate {

std::int64_t pipelines_of(InputMode mode, std::int64_t replicas, std::int64_t ways) {
  switch (mode) {
    case InputMode::per_replica:
      return replicas;
    case InputMode::per_process:
      return std::min(replicas, ways);
    case InputMode::single:
      return 1;
  }
  return 1;
}

InputContext input_context(const RowShares& shares, std::int64_t pipelines, std::int64_t id) {
  const Interval replicas = block(shares.replicas, pipelines, id);
  InputContext context;
  context.input_pipeline_id = id;
  context.num_input_pipelines = pipelines;
  context.num_replicas_in_sync = shares.replicas;
  context.replica_id = replicas.begin;
  context.rows = shares.of_replica(replicas.end - 1).end - shares.of_replica(replicas.begin).begin;
  return context;
}

}  // namespace tessera::replicate
