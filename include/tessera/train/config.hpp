// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/schema.hpp"

/// The deck's sections that say how a run goes; each struct describes its own keys.
namespace tessera::train {

/// Section [run].
struct RunConfig {
  std::string dir;  ///< "": runs/<name of the deck> in the working directory
  std::int64_t seed = 1;
  std::string walltime;   ///< see parse_duration; "": only SLURM_JOB_END_TIME
  std::string stop_file;  ///< "": <run.dir>/stop
  std::string trace;      ///< "": none
  double hang_timeout = 600;
  bool overwrite = false;
  std::vector<std::string> stop_signals{"USR1", "TERM"};
  double log_seconds = 2;
  void describe(config::Schema& schema);
};

/// Sections [mesh] and [layout].
struct MeshConfig {
  std::string shape;
  std::string rules = "batch:batch";
  std::string store;  ///< "": none
  void describe(config::Schema& schema);
};

/// Section [train].
struct TrainConfig {
  std::int64_t steps = 1000;
  std::string resume = "never";
  std::string dtype = "f32";
  std::int64_t micro_batches = 1;
  std::string recompute = "none";
  std::string on_nonfinite = "stop";
  std::string init_from;
  std::vector<std::string> init_map;
  std::vector<std::string> override_keys;
  void describe(config::Schema& schema);
};

/// Of the section [replicate]: how replicas are kept together (replicate::ReplicateConfig has the
/// rest).
struct AsyncConfig {
  std::string mode = "sync";
  std::int64_t servers = 1;
  std::int64_t group = 0;       ///< ranks; 0: the size of mesh.shape, or 1
  std::int64_t staleness = -1;  ///< -1: no bound
  double dead_after = 60;       ///< seconds
  bool is_async() const { return mode == "async"; }
  void describe(config::Schema& schema);
};

/// Section [eval].
struct EvalConfig {
  std::int64_t every = 0;
  std::int64_t batches = 0;
  std::int64_t episodes = 10;
  void describe(config::Schema& schema);
};

/// Section [checkpoint].
struct CheckpointConfig {
  std::int64_t every = 0;
  double minutes = 0;
  std::int64_t keep = 3;
  bool best = false;
  void describe(config::Schema& schema);
};

/// Section [plan].
struct PlanConfig {
  std::int64_t ranks = 0;    ///< 0: the size of mesh.shape
  std::string memory_limit;  ///< "": none
  double time_limit = 20;    ///< seconds of a search
  std::string machine;       ///< file that describes the machine; "": plan::Machine's defaults
  std::int64_t ranks_per_node = 0;
  std::string objective = "time";  ///< of a search: time or memory
  void describe(config::Schema& schema);
};

/// Section [sample].
struct SampleConfig {
  std::string prompt;
  std::string prompt_file;
  std::int64_t batch = 1;
  std::int64_t length = 0;
  double temperature = 1;
  std::int64_t top_k = 0;
  std::int64_t beam = 0;
  std::int64_t seed = 1;
  std::int64_t count = 0;
  std::int64_t every = 0;
  void describe(config::Schema& schema);
};

/// Section [translate].
struct TranslateConfig {
  std::string input;
  std::int64_t beam = 4;
  double alpha = 0.6;
  std::int64_t length = 0;  ///< 0: data.length
  std::int64_t batch = 8;
  std::int64_t best = 1;
  void describe(config::Schema& schema);
};

/// Sections [numerics] and [comm].
struct NumericsConfig {
  std::string reduce = "mpi";
  std::string gpu_aware = "auto";
  std::string overlap = "none";
  std::string bucket = "4MiB";
  void describe(config::Schema& schema);
};

/// Seconds of "90" or "90s", "15m", "2h", "1d", "MM:SS", "HH:MM:SS" or "D-HH:MM:SS". UserError that
/// begins with `key`.
double parse_duration(const std::string& key, std::string_view text);
/// Bytes of "4096", "512MB", "1.5GiB" …; UserError that begins with `key`.
double parse_bytes(const std::string& key, std::string_view text);

}  // namespace tessera::train
