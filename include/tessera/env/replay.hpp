// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tessera/comm/collectives.hpp"
#include "tessera/env/n_step.hpp"
#include "tessera/env/sum_tree.hpp"
#include "tessera/io/checkpoint.hpp"
#include "tessera/shape/tile.hpp"

namespace tessera::env {

struct ReplayConfig {
  std::int64_t environments = 1;  ///< of the whole job
  std::int64_t rounds = 1;        ///< newest transitions kept of each environment
  int observation = 0;
  int action = 0;
  /// Items are drawn with probability proportional to priority^exponent; 0: uniformly.
  double priority_exponent = 0;
};

/// A transition of the whole job's memory: the environment that it comes from, and its place among
/// that environment's newest.
struct ReplayItem {
  std::int64_t environment = 0;
  std::int64_t slot = 0;
  double probability = 0;  ///< of being drawn
  bool operator==(const ReplayItem&) const = default;
};

/// Rows of a batch: dense [rows, size] each.
struct ReplayRows {
  std::vector<float> observation, action, reward, discount, next;
};

/// The memory of all environments' transitions, spread over the mesh as the environments are: a
/// rank keeps what its own environments gave. Draws are global: every rank computes the same items
/// from (seed, step) and the counts and priorities of all, which all ranks hold; the drawn rows
/// travel to the ranks that need them in one all_to_all. So what is learnt from does not depend on
/// the mesh (Schaul et al. 2016 for priorities).
class Replay {
 public:
  /// `placement`: of a tensor [environment]; environments of replicated mesh dims are kept by each.
  Replay(const ReplayConfig& config, Placement placement, comm::Collectives& collectives);

  const ReplayConfig& config() const { return config_; }
  /// The environments of a local rank.
  Interval environments(int local_rank) const;
  /// Keeps a transition of a local rank's environment, in place of its oldest.
  void add(int local_rank, std::int64_t environment, const Transition& transition);
  /// Makes what was added known to all ranks: only then can it be drawn. New items get the highest
  /// priority so far. Collective.
  void publish();

  std::int64_t size() const { return size_; }  ///< published transitions
  /// `count` items with replacement, the same on all ranks. Error if there are none.
  std::vector<ReplayItem> draw(std::int64_t count, std::uint64_t seed, std::int64_t step) const;
  /// The drawn items' transitions, as a tensor [batch] placed so would give its rows to each local
  /// rank. Collective.
  std::vector<ReplayRows> rows(std::span<const ReplayItem> items, const Placement& batch) const;
  /// New priorities (finite, > 0), given alike on all ranks; nothing if draws are uniform.
  void set_priorities(std::span<const ReplayItem> items, std::span<const double> priorities);

  /// "/env/replay/…", for checkpoints; valid until the next add. Counts and priorities are kept
  /// whole, the transitions by environment.
  std::vector<io::SavedTensor> saved() const;
  /// Takes what saved() gave, on any mesh. `done` must be called once all is put.
  std::vector<io::LoadedTensor> loaded();
  void done();

 private:
  struct Shard {
    Interval environments;
    std::vector<float> data;          ///< [environment, slot, width]
    std::vector<std::int64_t> added;  ///< by environment, since the start
  };

  std::int64_t width() const { return 2 * config_.observation + config_.action + 2; }
  float* record(int local_rank, std::int64_t environment, std::int64_t slot) const;
  std::int64_t stored(std::int64_t environment) const;
  Interval environments_of(std::int64_t rank) const;
  ReplayItem uniform_item(double draw) const;
  void count_items();
  ReplayRows unpack(const std::vector<float>& records, std::int64_t count) const;

  ReplayConfig config_;
  Placement placement_;
  comm::Collectives* collectives_;
  mutable std::vector<Shard> shards_;    ///< by local rank
  std::vector<std::int64_t> published_;  ///< transitions of each environment since the start
  std::vector<std::int64_t> begins_;     ///< sum of stored over the environments before
  std::int64_t size_ = 0;
  std::optional<SumTree> tree_;  ///< weights by environment x rounds + slot
  double highest_ = 1;           ///< priority
  mutable std::vector<double> saved_counts_, saved_weights_;
};

}  // namespace tessera::env
