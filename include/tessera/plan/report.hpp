// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/json.hpp"
#include "tessera/program/program.hpp"

namespace tessera::plan {

/// Memory of the rank with the largest tiles, in bytes.
struct BytesPerRank {
  std::int64_t parameters = 0;  ///< weights and other saved state
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t caches = 0;       ///< keys and values, if there are sections that decode
  std::int64_t activations = 0;  ///< the largest section's tensors
  std::int64_t workspace = 0;    ///< kernels' scratch and packed buckets
  std::int64_t total = 0;        ///< of the arena: what a rank allocates
};

/// Seconds of one step, predicted. Nothing here costs more for more ranks.
struct Prediction {
  double step = 0;           ///< compute + exposed + host
  double compute = 0;        ///< local steps on the rank with the largest tiles
  double communication = 0;  ///< all collectives
  /// What of it computing waits for: all but what flights do over the network meanwhile.
  double exposed = 0;
  double host = 0;  ///< between sections
  /// Where there are stages, the numbers above but `step` are those of the busiest one.
  double waiting = 0;          ///< of the busiest stage, for others
  double bubble = 0;           ///< part of all stages' time in which they wait for each other
  std::vector<double> stages;  ///< seconds that each computes and communicates; none: no stages
  std::map<std::vector<int>, double> by_mesh_dims;
  std::map<std::string, double> by_kind;  ///< of local work
};

/// What a step costs, as `tessera plan` prints it.
struct Report {
  std::string mesh;
  std::int64_t ranks = 1;
  std::int64_t parameters = 0;  ///< elements of all weights, whole model
  BytesPerRank bytes_per_rank;
  double flops_per_step = 0;  ///< on the rank with the largest tiles
  double flops_per_step_all_ranks = 0;
  std::vector<program::CollectiveRow> collectives;  ///< of one step
  std::int64_t flights = 0;             ///< collectives of a step that are under way beside work
  std::int64_t bytes_in_flight = 0;     ///< payload of those that are at once, at most
  std::vector<std::string> recomputed;  ///< regions whose forward pass runs again in backward
  std::string machine;                  ///< what `predicted` rests on
  std::optional<Prediction> predicted;
  std::int64_t items = 0;  ///< of a step, in `unit`; 0: not told
  std::string unit;        ///< "tokens", "images"
};

/// A section and how often it runs in one step.
struct SectionRuns {
  std::string section;
  std::int64_t runs = 1;
};

/// Collectives of one run of a section, in the ledger's terms.
std::vector<program::CollectiveRow> collectives_of(const program::Program& program,
                                                   const program::Section& section);
Report report(const program::Program& program, const std::vector<SectionRuns>& step);

/// One JSON object: parameters, bytes_per_rank, flops_per_step, collectives …
std::string to_json(const Report& report, const MeshShape& mesh);
/// The same keys, into an object that is open.
void write_report(JsonWriter& json, const Report& report, const MeshShape& mesh);
/// A table for people.
std::string to_table(const Report& report, const MeshShape& mesh);
/// How one tensor is computed: operation, placement, steps, kernels, collectives. UserError with
/// near names if there is no such tensor.
std::string explain(const program::Program& program, const std::string& tensor);

}  // namespace tessera::plan
