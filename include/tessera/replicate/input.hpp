// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "tessera/replicate/row_shares.hpp"

namespace tessera::data {
class Samples;  // data/samples.hpp; here it is only handed on
}

namespace tessera::replicate {

/// How many pipelines give a model its samples (the RFC "Replicator API"'s InputReplicationMode).
enum class InputMode : std::uint8_t {
  per_replica,  ///< one for each replica
  per_process,  ///< one for each group of ranks that replicas are cut over: the input then depends
                ///< on the mesh
  single,       ///< one, whose samples are shared out over the replicas
};

/// Which pipeline is asked for.
struct InputContext {
  std::int64_t input_pipeline_id = 0;
  std::int64_t num_input_pipelines = 1;
  std::int64_t num_replicas_in_sync = 1;
  std::int64_t replica_id = 0;  ///< the first one that it feeds
  std::int64_t rows = 0;        ///< of its samples in each step
  std::uint64_t seed = 0;       ///< run.seed
  bool is_validation = false;   ///< the samples to evaluate on, in order
};

/// Gives a pipeline's samples; null for validation: there are none. It is called for all pipelines
/// on all ranks, which then read only the rows, and of them the parts, that they hold: a pipeline
/// shall cost little until it is read. A sample is a function of epoch and index, so a run resumes
/// by its step alone, and a replica on several ranks sees one and the same input.
using InputFunction =
    std::function<std::shared_ptr<const data::Samples>(const InputContext& context)>;

/// The pipelines of a mode when replicas are cut over `ways` ranks.
std::int64_t pipelines_of(InputMode mode, std::int64_t replicas, std::int64_t ways);
/// The context of one of them: pipeline i feeds block i of the replicas.
InputContext input_context(const RowShares& shares, std::int64_t pipelines, std::int64_t id);

}  // namespace tessera::replicate
