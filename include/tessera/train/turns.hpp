// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace tessera::train {

/// Whose turn it is in asynchronous training: what the first server knows of the workers, and what
/// the servers do next. Pure: no messages, no clock of its own.
///
/// A worker asks for work, is granted it with the weights of the present version, pushes what it
/// found, and asks again; so at most one push of each worker waits. With a staleness bound of 0
/// (`shares`) all workers get shares of one batch, and their gradients are added for one update;
/// else each push is one update, applied at arrival, the next worker's in turn first. With a bound
/// s > 0 a worker that is more than s pushes ahead of the slowest waits (Ho et al., "More Effective
/// Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013): then no gradient
/// is staler than (workers - 1) (2 s + 1) updates. Workers that are silent for `dead_after` seconds
/// are lost: nobody waits for them. They are taken in again when they speak.
class Turns {
 public:
  struct Config {
    int workers = 1;
    std::int64_t staleness = -1;  ///< bound; -1: none
    std::int64_t steps = 0;       ///< to reach
    std::int64_t pushes = 1;      ///< of a worker that make one step: runs of phases
    double dead_after = 60;       ///< seconds
  };
  /// `step`: steps that are done. `applied`: pushes of each worker that the weights hold already.
  Turns(const Config& config, std::int64_t step, std::vector<std::int64_t> applied, double now);

  bool shares() const { return config_.staleness == 0; }
  /// Updates so far.
  std::int64_t version() const { return version_; }
  /// Steps that are done: last pushes of a step that were applied.
  std::int64_t step() const { return step_; }
  const std::vector<std::int64_t>& applied() const { return applied_; }
  bool is_lost(int worker) const { return !at(worker).alive; }
  int alive() const;
  /// Some worker is lost, and was not told before that it is over.
  bool misses_workers() const;

  // What comes in.

  /// True if the worker was lost: it is back.
  bool heard(int worker, double now);
  void ask(int worker);
  /// False if this is no answer to the worker's present grant: a duplicate, or too late.
  bool push(int worker, std::int64_t sequence);
  void evaluated(int worker);
  /// Evaluate the present version; nothing ends before that.
  void want_evaluation() { evaluation_due_ = true; }
  bool evaluation_due() const { return evaluation_due_; }
  /// A worker that is alive does so.
  bool is_evaluating() const;
  /// No updates any more; where groups share, the step that is begun is done first, unless
  /// `at_once`.
  void stop(bool at_once = false) {
    stopping_ = true;
    at_once_ = at_once_ || at_once;
  }
  /// Workers that are lost from now on.
  std::vector<int> lose_silent(double now);
  /// The servers were busy and heard nobody.
  void forgive(double now);

  // What goes out.

  struct Grant {
    std::int64_t sequence = 0;  ///< of the worker's pushes, from 0
    std::int64_t version = 0;   ///< of the weights that go with it
    std::int64_t position = 0;  ///< of the push in its step, from 0
    std::int64_t share = 0;     ///< of the batch: micro-batches share, share + shares, …
    std::int64_t shares = 1;
    bool evaluate = false;
    bool stop = false;
  };
  struct Action {
    enum class Kind { none, grant, apply };
    Kind kind = Kind::none;
    std::vector<int> workers;  ///< grant: one; apply: whose pushes, ascending
    Grant grant;               ///< what is granted
    double scale = 1;          ///< of the sum of the pushes: more than 1 if shares were lost
  };
  /// The next thing to do. A grant has taken place; an update takes place by `commit`.
  Action next();
  /// What a worker whose push waits was granted.
  const Grant& grant_of(int worker) const { return *at(worker).grant; }
  /// Versions since a worker's grant, before its push is committed.
  std::int64_t staleness_of(int worker) const { return version_ - at(worker).grant->version; }
  /// These workers' pushes are in the weights, which makes a new version.
  void commit(const std::vector<int>& workers);
  /// A push that did not reach all servers: its worker died in the middle of it.
  void reject(int worker);
  /// No update comes any more, and no evaluation.
  bool is_settled() const;
  /// All workers that are alive know that it is over.
  bool is_over() const;

 private:
  struct Worker {
    bool alive = true;
    double last_heard = 0;
    bool asking = false;
    bool pushed = false;
    bool evaluating = false;
    bool told = false;       // that it is over
    std::int64_t clock = 0;  // pushes since the start, or since it came back
    std::optional<Grant> grant;
  };

  const Worker& at(int worker) const { return workers_[static_cast<std::size_t>(worker)]; }
  Worker& at(int worker) { return workers_[static_cast<std::size_t>(worker)]; }
  bool is_stopped() const {
    return stopping_ && (at_once_ || !shares() || version_ % config_.pushes == 0);
  }
  bool is_end() const { return is_stopped() || step_ >= config_.steps; }
  bool runs_ahead(int worker) const;
  std::int64_t slowest_clock() const;
  bool has_share(const Worker& it) const;
  bool is_round_open() const;
  Action next_update() const;
  std::optional<int> next_asking(bool for_work) const;
  std::optional<Action> next_grant();
  Action grant(int worker, Grant grant);

  Config config_;
  std::int64_t version_;
  std::int64_t step_;
  std::vector<std::int64_t> applied_;
  std::vector<Worker> workers_;
  int last_ = -1;            // worker whose turn was last
  std::int64_t shares_ = 1;  // of the round that is open
  std::int64_t dealt_ = 0;
  bool evaluation_due_ = false;
  bool stopping_ = false;
  bool at_once_ = false;
};

}  // namespace tessera::train
