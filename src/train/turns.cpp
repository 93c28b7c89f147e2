// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/turns.hpp"

#include <algorithm>
#include <limits>

#include "tessera/base/error.hpp"

namespace tessera::train {

Turns::Turns(const Config& config, std::int64_t step, std::vector<std::int64_t> applied, double now)
    : config_(config),
      version_(step * config.pushes),
      step_(step),
      applied_(std::move(applied)),
      workers_(static_cast<std::size_t>(config.workers)) {
  TESSERA_CHECK(applied_.size() == workers_.size(), "one count of pushes for each worker");
  forgive(now);
}

int Turns::alive() const {
  return static_cast<int>(std::ranges::count_if(workers_, &Worker::alive));
}

bool Turns::heard(int worker, double now) {
  Worker& it = at(worker);
  it.last_heard = now;
  if (it.alive) return false;
  // Nobody waits until it has caught up.
  if (alive() > 0) it.clock = slowest_clock();
  it.alive = true;
  return true;
}

void Turns::ask(int worker) {
  Worker& it = at(worker);
  it.asking = true;
  it.evaluating = false;
  // A worker that asks has done with what it was granted; what it pushed may still wait.
  if (!it.pushed) it.grant.reset();
}

bool Turns::push(int worker, std::int64_t sequence) {
  Worker& it = at(worker);
  if (!it.grant || it.grant->sequence != sequence || it.pushed) return false;
  if (shares() && it.grant->version != version_) return false;  // the others went on without it
  it.pushed = true;
  return true;
}

void Turns::evaluated(int worker) {
  if (at(worker).evaluating) evaluation_due_ = false;
  at(worker).evaluating = false;
}

bool Turns::is_evaluating() const {
  return std::ranges::any_of(workers_, &Worker::evaluating);
}

std::vector<int> Turns::lose_silent(double now) {
  std::vector<int> lost;
  for (int w = 0; w < config_.workers; ++w) {
    Worker& it = at(w);
    if (!it.alive || now - it.last_heard <= config_.dead_after) continue;
    it.alive = false;
    it.evaluating = false;  // what it asked for it gets when it is back
    lost.push_back(w);
  }
  return lost;
}

bool Turns::misses_workers() const {
  return std::ranges::any_of(workers_, [](const Worker& it) { return !it.alive && !it.told; });
}

void Turns::forgive(double now) {
  for (Worker& it : workers_) it.last_heard = now;
}

std::int64_t Turns::slowest_clock() const {
  auto slowest = std::numeric_limits<std::int64_t>::max();
  for (const Worker& it : workers_)
    if (it.alive) slowest = std::min(slowest, it.clock);
  return slowest;
}

bool Turns::runs_ahead(int worker) const {
  return config_.staleness > 0 && at(worker).clock - slowest_clock() > config_.staleness;
}

bool Turns::has_share(const Worker& it) const {
  return it.grant && !it.grant->evaluate && !it.grant->stop && it.grant->version == version_;
}

/// Somebody works on a share of the next update, or has done so.
bool Turns::is_round_open() const {
  return std::ranges::any_of(
      workers_, [&](const Worker& it) { return has_share(it) && (it.alive || it.pushed); });
}

Turns::Action Turns::next_update() const {
  Action update;
  if (is_end()) return update;
  if (shares()) {
    for (int w = 0; w < config_.workers; ++w) {
      const Worker& it = at(w);
      if (!has_share(it)) {
        if (it.alive && it.asking && dealt_ < shares_) return {};  // it gets one first
        continue;
      }
      if (it.pushed)
        update.workers.push_back(w);
      else if (it.alive)
        return {};  // its share is under way
    }
    if (!update.workers.empty())
      update.scale = static_cast<double>(shares_) / static_cast<double>(update.workers.size());
  } else {
    for (int i = 1; i <= config_.workers && update.workers.empty(); ++i) {
      const int w = (last_ + i) % config_.workers;
      if (at(w).pushed) update.workers.push_back(w);
    }
  }
  if (!update.workers.empty()) update.kind = Action::Kind::apply;
  return update;
}

/// The next worker in turn that asks and whose push is applied; for work, only one that may go on.
std::optional<int> Turns::next_asking(bool for_work) const {
  for (int i = 1; i <= config_.workers; ++i) {
    const int w = (last_ + i) % config_.workers;
    if (at(w).alive && at(w).asking && !at(w).pushed && !(for_work && runs_ahead(w))) return w;
  }
  return std::nullopt;
}

Turns::Action Turns::grant(int worker, Grant grant) {
  Worker& it = at(worker);
  grant.sequence = applied_[static_cast<std::size_t>(worker)];
  grant.version = version_;
  grant.position = (shares() ? version_ : grant.sequence) % config_.pushes;
  it.asking = false;
  it.evaluating = grant.evaluate;
  it.told = it.told || grant.stop;
  it.grant = grant;
  Action action;
  action.kind = Action::Kind::grant;
  action.workers = {worker};
  action.grant = grant;
  return action;
}

std::optional<Turns::Action> Turns::next_grant() {
  if (!shares()) {
    const auto worker = next_asking(true);
    if (!worker) return std::nullopt;
    return grant(*worker, {});
  }
  // A round begins when all are ready, and deals out its shares to them.
  if (!is_round_open()) {
    for (const Worker& it : workers_)
      if (it.alive && !(it.asking && !it.pushed)) return std::nullopt;
    shares_ = alive();
    dealt_ = 0;
  }
  for (int w = 0; w < config_.workers && dealt_ < shares_; ++w) {
    if (!at(w).alive || !at(w).asking || at(w).pushed) continue;
    Grant share;
    share.share = dealt_++;
    share.shares = shares_;
    return grant(w, share);
  }
  return std::nullopt;
}

Turns::Action Turns::next() {
  Action update = next_update();
  if (update.kind != Action::Kind::none) return update;
  const bool evaluating = is_evaluating();
  if (evaluation_due_ && !evaluating && !is_stopped()) {
    Grant evaluation;
    evaluation.evaluate = true;
    if (const auto worker = next_asking(false)) return grant(*worker, evaluation);
    return {};
  }
  if (is_end()) {
    if (evaluating && !is_stopped()) return {};
    // Nobody is let go before all have come or are lost: who goes must know whether MPI's end would
    // wait for a rank that is no more.
    const auto has_come = [](const Worker& it) { return !it.alive || it.asking || it.told; };
    if (!std::ranges::all_of(workers_, has_come)) return {};
    Grant end;
    end.stop = true;
    for (int w = 0; w < config_.workers; ++w)
      if (at(w).alive && at(w).asking) return grant(w, end);
    return {};
  }
  return next_grant().value_or(Action());
}

void Turns::commit(const std::vector<int>& workers) {
  if (grant_of(workers.front()).position == config_.pushes - 1) step_ += 1;
  for (int w : workers) {
    Worker& it = at(w);
    applied_[static_cast<std::size_t>(w)] += 1;
    it.clock += 1;
    it.pushed = false;
    it.grant.reset();
    last_ = w;
  }
  version_ += 1;
}

void Turns::reject(int worker) {
  at(worker).pushed = false;
  at(worker).grant.reset();
}

bool Turns::is_settled() const {
  return is_stopped() || (is_end() && !evaluation_due_);
}

bool Turns::is_over() const {
  return is_end() &&
         std::ranges::all_of(workers_, [](const Worker& it) { return !it.alive || it.told; });
}

}  // namespace tessera::train
