// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/comm/mailbox.hpp"
#include "tessera/comm/while_waiting.hpp"
#include "tessera/train/compiled.hpp"
#include "tessera/train/messages.hpp"
#include "tessera/train/observers.hpp"
#include "tessera/train/phase_runner.hpp"
#include "tessera/train/session.hpp"
#include "tessera/train/stages.hpp"
#include "tessera/train/transfer.hpp"

namespace tessera::train {

/// A group of ranks that pulls weights, computes gradients and pushes them. It decides nothing:
/// each WorkOrder says which batch, phase and weights.
class Worker {
 public:
  /// `session` is the group's, with the Program of compile_workers; `servers` theirs.
  Worker(Session& session, const Compiled& servers, const Groups& groups, std::int64_t index,
         comm::Mailbox& mailbox);
  ~Worker();

  /// Does what can be done without waiting for the servers; false if that is nothing.
  bool advance();
  /// The servers said so.
  bool is_over() const { return state_ == State::over; }
  int exit_code() const { return is_broken() ? kDone : order_.exit_code; }
  /// A rank of the group is lost, and so is the group.
  bool is_broken() const { return broken_by_ >= 0; }
  /// MPI cannot end in order.
  bool lost_workers() const { return order_.lost_workers || is_broken(); }

 private:
  enum class State { idle, waiting, pulling, working, over };
  class Pulse;

  std::int64_t in_group(int local_rank) const;
  int rank_of(int local_rank) const;
  void send_to_first(Tag tag, std::vector<std::byte> bytes);
  void read_mail();
  bool take_order();
  bool take_weights();
  void work();
  void evaluate();
  void take_batch(const Stage& stage);
  void read_batch();
  /// Sums over the group of what a computation gave, which must be the same where it is mirrored.
  std::vector<double> sum_shares(const PhaseRunner& runner) const;
  StepRecord report_experience(const Stage& stage);
  void compute();
  void push(std::size_t phase);
  void keep_states(std::size_t phase);
  void pack_states(std::size_t phase, int local_rank, std::int64_t server, Writer& to);
  void show_life();
  void while_waiting();
  void leave(int lost);

  Session& session_;
  const Compiled& servers_;
  Groups groups_;
  std::int64_t index_;
  comm::Mailbox& mailbox_;
  Stages stages_;
  Routes pulls_;      // by phase, then of evaluations
  Routes gradients_;  // by phase
  Routes changes_;    // of states, by phase
  std::vector<PhaseRunner> runners_;
  Observers observers_;
  std::unique_ptr<Pulse> pulse_;
  std::unique_ptr<comm::WhileWaiting> waiting_;
  State state_ = State::idle;
  bool speaks_;  // this process holds the group's first rank
  double last_pulse_ = 0;
  bool told_signal_ = false;
  int broken_by_ = -1;                // a rank of the group that the servers call lost
  std::optional<WorkOrder> ordered_;  // on the first rank, until the group knows
  WorkOrder order_;
  std::map<std::pair<int, int>, std::vector<std::byte>> weights_;  // by server and local rank
  std::unique_ptr<data::Loader> loader_;
  std::optional<data::Batch> read_;  // the last one from the loader
  const data::Batch* batch_ = nullptr;
  double last_step_ = 0;
  /// Tiles of pushed states as they were pulled, by local rank and name.
  std::map<std::pair<int, std::string>, std::vector<std::byte>> states_;
};

}  // namespace tessera::train
