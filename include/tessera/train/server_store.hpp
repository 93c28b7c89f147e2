// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/comm/mailbox.hpp"
#include "tessera/train/compiled.hpp"
#include "tessera/train/phase_runner.hpp"
#include "tessera/train/session.hpp"
#include "tessera/train/stages.hpp"
#include "tessera/train/state.hpp"
#include "tessera/train/transfer.hpp"

namespace tessera::train {

/// The weights that the servers of this process keep: what they send to workers, and what they do
/// with pushes. All servers do the same in the same order.
class ServerStore {
 public:
  /// `session` is the servers', with the Program of compile_servers; `workers` theirs.
  ServerStore(Session& session, const Compiled& workers, const Groups& groups,
              comm::Mailbox& mailbox, const RunState& state);

  const Stages& stages() const { return stages_; }
  /// Takes a message kGradients for a rank of this process.
  void keep(comm::Mailbox::Message message);
  /// Sends a worker the variables of a traffic (Stages) with a ticket in front.
  void send_weights(std::int64_t worker, std::size_t traffic, std::int64_t ticket);
  /// All parts of a worker's push for the order of this ticket have come to this process's
  /// servers.
  bool has(std::int64_t worker, std::int64_t ticket, std::size_t phase);

  struct Update {
    std::size_t phase = 0;
    std::int64_t step = 1;  ///< that the phase's run belongs to, for the learning rate
    std::int64_t run = 0;
    double scale = 1;                   ///< of the sum of gradients
    std::vector<std::int64_t> workers;  ///< whose gradients are added in this order; all are here
  };
  struct Result {
    bool finite = true;
    double grad_norm = 0;
  };
  /// One update, collective over the servers. States change by the mean of the workers' changes.
  Result apply(const Update& update);
  /// See RunState.
  std::vector<std::int64_t> skipped() const { return skipped_by(runners_); }
  /// What ends a step besides (section `finish`).
  void finish_step(std::int64_t step);

 private:
  struct Pushed {
    std::int64_t ticket = 0;
    std::vector<std::byte> bytes;
  };
  std::int64_t in_servers(int local_rank) const;
  template <class Use>
  bool for_each_push(std::int64_t worker, std::size_t phase, const Use& use);
  void add(std::int64_t worker, const Update& update);

  Session& session_;
  Groups groups_;
  comm::Mailbox& mailbox_;
  Stages stages_;
  Routes pulls_;
  Routes gradients_;
  Routes changes_;
  std::vector<PhaseRunner> runners_;
  std::map<std::pair<int, std::int64_t>, Pushed> pushed_;  // by local rank and the sender's rank
};

}  // namespace tessera::train
