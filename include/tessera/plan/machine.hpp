// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tessera/plan/work.hpp"

namespace tessera::plan {

/// Seconds of a collective's first and of each further byte.
struct Link {
  double alpha = 0;  ///< seconds of one message
  double beta = 0;   ///< seconds for each byte that a rank sends
};

/// What a machine does in a second, as the file `plan.machine` says it: a few numbers of its
/// specification, and rates that `tessera calibrate` has measured, which go before them. The page
/// src/plan/README.md explains every key. Defaults: one core of a server CPU for each rank.
struct Machine {
  std::string name = "a CPU core for each rank, not measured";
  std::int64_t cores = 0;           ///< (or GPUs) of a node, 0: as many as ranks
  std::int64_t ranks_per_node = 0;  ///< 0: all ranks on one node
  double flops = 4e10;              ///< f32 operations of a rank in a second, in matrix products
  double flops_bf16 = 0;            ///< the same for 16-bit operands; 0: flops
  double flops_f64 = 0;             ///< 0: half of flops
  double memory_bandwidth = 8e9;    ///< bytes per second and rank while all ranks of a node compute
  double call_seconds = 1e-6;       ///< of a kernel's launch
  double step_seconds = 50e-6;      ///< the host's work between sections, once a step
  double latency = 3e-6;            ///< seconds of a message inside a node
  double bandwidth = 5e9;           ///< bytes per second of a rank inside a node
  double network_latency = 5e-6;    ///< seconds of a message between nodes
  double network_bandwidth = 1.25e10;  ///< bytes per second of a node, all its ranks together

  /// Ranks of a node that computed at once when `together` was measured.
  std::int64_t measured_ranks = 1;
  std::map<std::string, Units> alone;     ///< seconds for each unit of a kind of work, by kind
  std::map<std::string, Units> together;  ///< the same while measured_ranks ranks compute
  std::map<std::string, Link> links;      ///< measured collectives inside a node, by name

  /// UserError that names file, line and key.
  static Machine read(const std::string& file);
  /// The text of a file that reads back as this machine; `comment` are its first lines.
  std::string to_ini(const std::string& comment) const;

  /// Seconds for each unit while `ranks` ranks of a node compute.
  Units rates(const std::string& kind, std::int64_t ranks) const;
  Link link(program::CollectiveKind kind) const;
};

}  // namespace tessera::plan
