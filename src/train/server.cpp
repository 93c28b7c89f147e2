// SPDX-License-Identifier: BSD-3-Clause
// How servers hear workers, decide, and do the same in the same order.
#include <algorithm>
#include <utility>

#include "server_command.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/comm/signals.hpp"

namespace tessera::train {

namespace {

/// Counts of pushes by worker that a run goes on from: those of the checkpoint if it is of the same
/// number of groups; else the data go on from where it stands as a whole.
std::vector<std::int64_t> begin_counts(RunState& state, const Groups& groups) {
  const auto workers = static_cast<std::size_t>(groups.workers);
  if (groups.share || state.applied.size() != workers) {
    state.first_batch = state.position;
    state.first_step = state.step;
    state.applied.assign(workers, 0);
  }
  return state.applied;
}

Turns::Config config_of(const Settings& settings, const Groups& groups, std::int64_t pushes) {
  Turns::Config config;
  config.workers = static_cast<int>(groups.workers);
  config.staleness = settings.async.staleness;
  config.steps = settings.train.steps;
  config.pushes = pushes;
  config.dead_after = settings.async.dead_after;
  return config;
}

}  // namespace

Server::Server(Session& session, const Compiled& workers, const Groups& groups,
               comm::Mailbox& mailbox, Start& start, StopWatch& watch, Clock now)
    : session_(session),
      workers_(workers),
      groups_(groups),
      mailbox_(mailbox),
      start_(start),
      state_(start.state),
      watch_(watch),
      now_(std::move(now)),
      store_(session, workers, groups, mailbox, start.state),
      log_(session, start.folder.get(), start.state.step + 1,
           workers.report().flops_per_step_all_ranks * static_cast<double>(groups.shares())),
      observers_(session.settings.run.hang_timeout, session.settings.run.trace,
                 *session.collectives),
      turns_(config_of(session.settings, groups, store_.stages().pushes()), start.state.step,
             begin_counts(start.state, groups), now_()),
      leads_(session.backend.is_root()),
      steps_before_(start.state.step),
      saved_step_(start.restored.is_on_disk ? start.state.step : -1),
      pushes_(static_cast<std::size_t>(groups.workers)),
      heard_(static_cast<std::size_t>(groups.ranks()), now_()),
      told_lost_(static_cast<std::size_t>(groups.ranks())),
      dismissed_(static_cast<std::size_t>(groups.workers)),
      owed_(static_cast<std::size_t>(groups.workers)),
      granted_(static_cast<std::size_t>(groups.workers), now_()),
      sent_(static_cast<std::size_t>(groups.workers)),
      gathered_(static_cast<std::size_t>(groups.workers)),
      last_step_(now_()),
      last_save_(now_()),
      last_beat_(now_()) {
  const auto& phases = session.compiled.task->phases();
  for (std::size_t p = 0; p < phases.size(); ++p) {
    runs_.push_back(state_.first_step * phases[p].phase.runs);
    for (std::int64_t pushed : state_.applied) runs_[p] += store_.stages().runs_in(pushed, p);
  }
  if (state_.evaluation_due) turns_.want_evaluation();
  session.executor->set_recorder(&observers_);
}

Server::~Server() {
  session_.executor->set_recorder(nullptr);
}

bool Server::advance() {
  read_mail();
  const Command command = from_first(leads_ ? decide() : Command());
  if (command.kind == Command::Kind::none) return false;
  execute(command);
  return true;
}

/// The first server's command on all of them. One that is nothing is told only as a sign of life.
Server::Command Server::from_first(const Command& command) {
  const auto& world = session_.backend.world();
  const bool is_nothing = command.kind == Command::Kind::none;
  if (world.size() == 1 || (leads_ && is_nothing && !std::exchange(beats_, false))) return command;
  const auto bytes = command.bytes();
  const auto* begin = reinterpret_cast<const char*>(bytes.data());
  const std::string text = world.broadcast_text(std::string(begin, begin + bytes.size()));
  if (!leads_) observers_.others_work();
  return Command::from(std::as_bytes(std::span(text)));
}

Server::Command Server::decide() {
  look_around();
  look_for_silence();
  show_patience();
  Command command;
  const bool is_last = turns_.is_settled() && !closed_;
  if (save_due_ || (is_last && !diverged_ && saved_step_ != state_.step)) {
    save_due_ = false;
    command.kind = Command::Kind::save;
    command.state = state_;
    return command;
  }
  if (is_last) close();
  const auto action = turns_.next();
  switch (action.kind) {
    case Turns::Action::Kind::grant:
      return grant(action.workers[0], action.grant);
    case Turns::Action::Kind::apply:
      return propose(action);
    default:
      break;
  }
  if (!turns_.is_over()) return command;
  command.kind = Command::Kind::end;
  command.code = exit_code_;
  command.lost_workers = turns_.misses_workers();
  return command;
}

void Server::execute(const Command& command) {
  switch (command.kind) {
    case Command::Kind::send:
      for (std::int64_t worker : command.workers)
        store_.send_weights(worker, static_cast<std::size_t>(command.traffic), command.ticket);
      break;
    case Command::Kind::apply:
      apply(command);
      break;
    case Command::Kind::save:
      save(command.state);
      break;
    default:
      exit_code_ = static_cast<int>(command.code);
      lost_workers_ = command.lost_workers;
      over_ = true;
      for (int w = 0; leads_ && groups_.group > 1 && w < groups_.workers; ++w)
        if (turns_.is_lost(w)) dismiss(w);
      mailbox_.flush(lost_workers_ ? 1 : 10);
      log_.finish();
      observers_.finish();
  }
}

void Server::read_mail() {
  for (int rank : session_.collectives->local_ranks())
    while (auto message = mailbox_.receive(rank)) hear(std::move(*message));
}

void Server::hear(comm::Mailbox::Message message) {
  const auto worker = static_cast<int>(groups_.worker_of(message.from));
  TESSERA_CHECK(worker >= 0, "a server wrote to a server");
  const auto w = static_cast<std::size_t>(worker);
  const double now = now_();
  heard_[static_cast<std::size_t>(message.from)] = now;
  // A group lives as long as all of its ranks do.
  const double heard = last_heard_of(worker);
  if (leads_ && !dismissed_[w] && now - heard <= session_.settings.async.dead_after &&
      turns_.heard(worker, heard)) {
    granted_[w] = now;  // how long it slept says nothing of its steps
    log_.say(name_of(worker) + " is back");
  }
  if (dismissed_[w]) tell_lost(message.from, message.from);  // it was only asleep: too late
  switch (message.tag) {
    case kGradients:
      return store_.keep(std::move(message));
    case kAsk:
      return turns_.ask(worker);
    case kPush: {
      Push push = Push::from(message.bytes);
      if (!turns_.push(worker, push.sequence)) return;
      pushes_[w] = std::move(push);
      watch_.clock().add_step_seconds(now - granted_[w]);  // the end waits for such a step
      return;
    }
    case kSignal:
      return watch_.note_signal();
    case kEvaluated:
      return evaluated(worker, Evaluated::from(message.bytes));
    default:
      return;  // it lives
  }
}

/// Reasons to stop, a few times a second: they cost calls of the system.
void Server::look_around() {
  constexpr double kInterval = 0.1;
  const double now = now_();
  if (now - last_look_ < kInterval || stop_ != Stop::none) return;
  last_look_ = now;
  log_.check_lock(now);
  const auto votes = watch_.votes();
  stop_ = StopWatch::decide(votes.data());
  if (stop_ != Stop::none) turns_.stop();
}

void Server::look_for_silence() {
  const double dead_after = session_.settings.async.dead_after;
  const double now = now_();
  for (int worker : turns_.lose_silent(now))
    log_.say(concat("warning: ", silent_one_of(worker), " has been silent for ", dead_after,
                    " s: going on without it"));
  // A pause of a rank may end; then the group is taken in again.
  constexpr double kPatience = 3;
  for (int worker = 0; groups_.group > 1 && worker < groups_.workers; ++worker)
    if (turns_.is_lost(worker) && now - last_heard_of(worker) > kPatience * dead_after)
      dismiss(worker);
  if (turns_.alive() > 0) return;
  if (stop_ == Stop::none) {
    log_.say("warning: no group is left");
    stop_ = Stop::signal;
  }
  turns_.stop(true);  // nobody is left to end a step that is begun
}

/// An evaluation may take any time. Who waits for its end, or for the group that makes it, shall
/// not think that the job hangs.
void Server::show_patience() {
  const double interval = session_.settings.run.hang_timeout / 8;
  if (interval <= 0 || !turns_.is_evaluating()) return;
  const double now = now_();
  if (now - last_beat_ < interval) return;
  last_beat_ = now;
  beats_ = true;
  observers_.others_work();
  for (auto rank = static_cast<int>(groups_.servers); rank < groups_.ranks(); ++rank)
    if (!turns_.is_lost(static_cast<int>(groups_.worker_of(rank))))
      mailbox_.send({0, rank, kPulse, {}});
}

int Server::most_silent(int worker) const {
  const auto first = heard_.begin() + groups_.first_rank(worker);
  return static_cast<int>(std::min_element(first, first + groups_.group) - heard_.begin());
}

double Server::last_heard_of(int worker) const {
  return heard_[static_cast<std::size_t>(most_silent(worker))];
}

/// Tells the ranks of a lost group, which wait for the one that is silent, that it will not come.
void Server::dismiss(int worker) {
  if (dismissed_[static_cast<std::size_t>(worker)]) return;
  dismissed_[static_cast<std::size_t>(worker)] = true;
  log_.say(concat("the other ranks of ", name_of(worker), " leave"));
  const auto first = static_cast<int>(groups_.first_rank(worker));
  for (int rank = first; rank < first + static_cast<int>(groups_.group); ++rank)
    if (now_() - heard_[static_cast<std::size_t>(rank)] <= session_.settings.async.dead_after)
      tell_lost(rank, most_silent(worker));
}

void Server::tell_lost(int rank, int lost) {
  const auto r = static_cast<std::size_t>(rank);
  if (!told_lost_[r]) mailbox_.send({0, rank, kLost, Writer().put(lost).take()});
  told_lost_[r] = true;
}

std::string Server::silent_one_of(int worker) const {
  return groups_.group == 1 ? name_of(worker)
                            : concat("rank ", most_silent(worker), " of ", name_of(worker));
}

std::string Server::name_of(int worker) const {
  const std::int64_t first = groups_.first_rank(worker);
  return groups_.group == 1
             ? concat("group ", worker, " (rank ", first, ")")
             : concat("group ", worker, " (ranks ", first, "-", first + groups_.group - 1, ")");
}

/// Tells the worker what to do; the command sends it the weights.
Server::Command Server::grant(int worker, const Turns::Grant& granted) {
  const auto& stages = store_.stages();
  const auto w = static_cast<std::size_t>(worker);
  WorkOrder order;
  order.grant = granted;
  order.ticket = sent_[w] = ++tickets_;
  order.exit_code = exit_code_;
  order.lost_workers = turns_.misses_workers();
  order.save = std::exchange(owed_[w], 0);
  granted_[w] = now_();
  const std::int64_t since = turns_.version() - state_.first_step * stages.pushes();
  const std::int64_t batch = groups_.share
                                 ? stages.batch_of(since)
                                 : worker + groups_.workers * stages.batch_of(turns_.applied()[w]);
  order.batch = place(batch);
  const std::int64_t step = turns_.applied()[w] / stages.pushes();
  order.step =
      1 + (groups_.share ? turns_.step() : state_.first_step + worker + groups_.workers * step);
  mailbox_.send(
      {0, static_cast<int>(groups_.first_rank(worker)), kGrant, Writer().put(order).take()});
  Command command;
  if (granted.stop) return command;
  if (granted.evaluate) evaluated_step_ = turns_.step();
  command.kind = Command::Kind::send;
  command.ticket = order.ticket;
  command.workers = {worker};
  command.traffic = static_cast<std::int64_t>(
      granted.evaluate ? stages.evaluation()
                       : stages.order[static_cast<std::size_t>(granted.position)].phase);
  return command;
}

Server::Command Server::propose(const Turns::Action& action) const {
  const auto& stages = store_.stages();
  const auto& first = turns_.grant_of(action.workers[0]);
  const Stage& stage = stages.order[static_cast<std::size_t>(first.position)];
  const std::int64_t runs = session_.compiled.task->phases()[stage.phase].phase.runs;
  Command command;
  command.kind = Command::Kind::apply;
  command.update.phase = stage.phase;
  command.update.step = runs_[stage.phase] / runs + 1;
  command.update.run = runs_[stage.phase] % runs;
  command.update.scale = action.scale;
  if (first.position == stages.pushes() - 1) command.ends_step = turns_.step() + 1;
  for (int worker : action.workers) {
    command.workers.push_back(worker);
    command.tickets.push_back(sent_[static_cast<std::size_t>(worker)]);
  }
  return command;
}

/// Whose pushes have come to all servers. A worker that died in the middle of a push is waited for
/// as long as any silent one.
std::vector<std::int64_t> Server::present(const Command& command) {
  const double end = now_() + session_.settings.async.dead_after;
  std::vector<double> missing(command.workers.size(), 0);
  for (std::size_t i = 0; i < missing.size(); ++i)
    while (!store_.has(command.workers[i], command.tickets[i], command.update.phase)) {
      missing[i] = now_() > end;
      if (missing[i] > 0) break;
      mailbox_.pause();
      read_mail();
    }
  missing.push_back(comm::pending_signal() != 0);  // on any server
  const auto sums = session_.sum(missing);
  if (sums.back() > 0) watch_.note_signal();
  std::vector<std::int64_t> here;
  for (std::size_t i = 0; i < command.workers.size(); ++i)
    if (sums[i] == 0)
      here.push_back(command.workers[i]);
    else if (leads_)
      turns_.reject(static_cast<int>(command.workers[i]));
  return here;
}

void Server::apply(const Command& command) {
  const auto workers = present(command);
  if (workers.empty()) return;
  ServerStore::Update update = command.update;
  update.workers = workers;
  update.scale *= static_cast<double>(command.workers.size()) / static_cast<double>(workers.size());
  const auto result = store_.apply(update);
  if (command.ends_step > 0) store_.finish_step(command.ends_step);
  observers_.step_done();
  if (leads_) gather(command, workers, update.scale, result);
}

void Server::save(const RunState& state) {
  RunState saved = state;
  if (groups_.share) saved.applied.clear();  // as in a synchronous run
  saved.skipped = store_.skipped();
  const Observers::Phase phase(observers_, "checkpoint");
  const double begin = now_();
  const std::string file =
      save_state(session_, saved, start_.data, session_.settings.run_file("checkpoints"));
  saved_step_ = state.step;
  if (session_.settings.model->acts()) std::ranges::fill(owed_, state.step);
  last_save_ = now_();
  watch_.clock().set_save_seconds(last_save_ - begin);
  log_.say(concat("saved ", file, ", ", format_time(last_save_ - begin)));
  // Who spoke meanwhile was not heard.
  turns_.forgive(last_save_);
  for (int w = 0; w < groups_.workers; ++w)
    if (!turns_.is_lost(w))
      std::fill_n(heard_.begin() + groups_.first_rank(w), groups_.group, last_save_);
}

}  // namespace tessera::train
