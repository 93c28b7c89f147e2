// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/comm/mailbox.hpp"
#include "tessera/train/compiled.hpp"
#include "tessera/train/messages.hpp"
#include "tessera/train/observers.hpp"
#include "tessera/train/run_log.hpp"
#include "tessera/train/server_store.hpp"
#include "tessera/train/start.hpp"
#include "tessera/train/turns.hpp"

namespace tessera::train {

/// The servers of an asynchronous run. The first one hears the workers, decides (Turns) and tells
/// the others, so that all do the same in the same order; it prints and writes the metrics.
class Server {
 public:
  using Clock = std::function<double()>;  ///< seconds

  /// `start` has what the run begins from. Collective over the servers.
  Server(Session& session, const Compiled& workers, const Groups& groups, comm::Mailbox& mailbox,
         Start& start, StopWatch& watch, Clock now);
  ~Server();

  /// Does what can be done now; false if that is nothing. Servers behind the first one wait in it
  /// for what that says.
  bool advance();
  bool is_over() const { return over_; }
  int exit_code() const { return exit_code_; }
  /// A worker was lost on the way: MPI cannot end in order. Known to all servers when it is over.
  bool lost_workers() const { return lost_workers_; }

 private:
  struct Command;
  /// What the pushes of a step have given so far.
  struct Gathered {
    std::vector<double> grad_norms;                // by phase
    std::vector<std::vector<double>> numbers;      // by phase
    std::vector<std::vector<StepResult>> results;  // by phase: means over the groups that share
    std::int64_t targets = 0;
    std::int64_t stalest = 0;
    bool finite = true;
  };

  Command decide();
  Command from_first(const Command& command);
  void execute(const Command& command);
  void read_mail();
  void hear(comm::Mailbox::Message message);
  void look_around();
  void look_for_silence();
  void show_patience();
  double last_heard_of(int worker) const;
  int most_silent(int worker) const;
  void dismiss(int worker);
  void tell_lost(int rank, int lost);
  Command grant(int worker, const Turns::Grant& grant);
  Command propose(const Turns::Action& action) const;
  void apply(const Command& command);
  std::vector<std::int64_t> present(const Command& command);
  void gather(const Command& command, const std::vector<std::int64_t>& workers, double scale,
              const ServerStore::Result& result);
  void end_step(Gathered& gathered, std::int64_t worker);
  bool is_checkpoint_step() const;
  void check_finite(const Gathered& gathered, double loss, double norm);
  void evaluated(int worker, const Evaluated& result);
  data::Position place(std::int64_t batches) const;
  void add_counts(std::int64_t worker, StepRecord& record);
  void update_state();
  void save(const RunState& state);
  void close();
  std::string name_of(int worker) const;
  std::string silent_one_of(int worker) const;

  Session& session_;
  const Compiled& workers_;
  Groups groups_;
  comm::Mailbox& mailbox_;
  Start& start_;
  RunState& state_;
  StopWatch& watch_;
  Clock now_;
  ServerStore store_;
  RunLog log_;
  Observers observers_;
  Turns turns_;
  bool leads_;
  bool over_ = false;
  bool closed_ = false;  // the last state is saved, and workers are told to stop
  bool diverged_ = false;
  bool save_due_ = false;
  bool lost_workers_ = false;
  Stop stop_ = Stop::none;
  int exit_code_ = kDone;
  std::int64_t steps_before_;  // done when this run began
  std::int64_t saved_step_ = -1;
  std::int64_t tickets_ = 0;
  std::int64_t evaluated_step_ = 0;
  std::vector<std::int64_t> runs_;  // of each phase, since the start of training
  std::vector<Push> pushes_;        // by worker: the last one
  std::vector<double> heard_;       // by rank: when it last spoke
  std::vector<bool> told_lost_;     // by rank: that its group is
  std::vector<bool> dismissed_;     // by worker
  std::vector<std::int64_t> owed_;  // by worker: step of a checkpoint without its experience, or 0
  std::vector<double> granted_;     // by worker: when it got work, or came back with it
  std::vector<std::int64_t> sent_;  // by worker: ticket of its last order
  std::map<std::int64_t, std::vector<std::pair<std::string, std::int64_t>>> counts_;  // by worker
  std::vector<Gathered> gathered_;       // by worker; the first one's for all that share
  std::vector<std::int64_t> staleness_;  // how many updates had which
  double last_step_;
  double last_look_ = -1e9;
  double last_save_;
  double last_beat_;
  bool beats_ = false;  // the other servers are to hear a command that is nothing
};

}  // namespace tessera::train
