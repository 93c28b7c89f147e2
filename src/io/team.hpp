// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "tessera/base/status.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/comm/collectives.hpp"
#include "tessera/io/digest.hpp"

namespace tessera::io {

/// The processes that save or load together, whichever backend binds them.
class Team {
 public:
  explicit Team(comm::Collectives& collectives) : collectives_(collectives) {}

  comm::Collectives& collectives() const { return collectives_; }
  const MeshShape& mesh() const { return collectives_.mesh(); }
  const std::vector<int>& local_ranks() const { return collectives_.local_ranks(); }
  Coordinates coordinates(int local_rank) const;
  const comm::World& world() const { return collectives_.world(); }
  /// This process alone touches folders and metadata.
  bool leads() const { return world().rank() == 0; }

  /// The status of the process with the lowest rank that failed, on all; ok if none did.
  Status agreed(const Status& status) const;
  void agree(const Status& status) const { comm::agree(world(), status); }
  /// Runs `phase` on the leader only; what it throws is thrown on all.
  template <class Phase>
  void leader_does(const Phase& phase) const {
    agree(attempt([&] {
      if (leads()) phase();
    }));
  }
  /// The leader's values, on all; equally many everywhere.
  std::vector<std::int64_t> from_leader(std::vector<std::int64_t> values) const;
  std::string text_from_leader(const std::string& text) const {
    return world().broadcast_text(text);
  }
  /// Sums over all local ranks of all processes; digests[r] are local rank r's, equally many.
  std::vector<Digest> sum(const std::vector<std::vector<Digest>>& digests) const;
  /// Everybody's digests, by rank.
  std::vector<std::vector<Digest>> gather(const std::vector<std::vector<Digest>>& digests) const;

 private:
  comm::Collectives& collectives_;
};

}  // namespace tessera::io
