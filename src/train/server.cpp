// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/server.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "tessera/base/error.hpp"
#include "tessera/base/json.hpp"
#include "tessera/base/text.hpp"
#include "tessera/optim/schedule.hpp"
#include "tessera/train/finite.hpp"

namespace tessera::train {

/// What all servers do next.
struct Server::Command {
  enum class Kind : int { none, send, apply, save, end };
  Kind kind = Kind::none;
  std::int64_t ticket = 0;   // send
  std::int64_t traffic = 0;  // send: index in Stages::traffic
  ServerStore::Update update;
  std::vector<std::int64_t> workers = {};    // send: whom to; apply: whose
  std::vector<std::int64_t> sequences = {};  // apply
  bool ends_step = false;
  RunState state = {};  // save
  std::int64_t code = 0;
  bool lost_workers = false;

  std::vector<std::byte> bytes() const {
    Writer to;
    to.put(kind).put(ticket).put(traffic).put(update.phase).put(update.step).put(update.run);
    to.put(update.scale).put_all(workers).put_all(sequences).put(ends_step);
    to.put(code).put(lost_workers);
    to.put(state.step).put(state.targets).put(state.position).put(state.best_validation);
    to.put(state.evaluation_due).put(state.first_batch).put(state.first_step);
    return to.put_all(state.applied).take();
  }
  static Command from(std::span<const std::byte> bytes) {
    Reader in(bytes);
    Command it;
    const auto get = [&](auto& value) { value = in.get<std::decay_t<decltype(value)>>(); };
    get(it.kind), get(it.ticket), get(it.traffic), get(it.update.phase), get(it.update.step);
    get(it.update.run), get(it.update.scale);
    it.workers = in.get_all<std::int64_t>();
    it.sequences = in.get_all<std::int64_t>();
    get(it.ends_step), get(it.code), get(it.lost_workers);
    get(it.state.step), get(it.state.targets), get(it.state.position);
    get(it.state.best_validation), get(it.state.evaluation_due), get(it.state.first_batch);
    get(it.state.first_step);
    it.state.applied = in.get_all<std::int64_t>();
    return it;
  }
};

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
      store_(session, workers, groups, mailbox),
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
      gathered_(static_cast<std::size_t>(groups.workers)),
      last_step_(now_()),
      last_save_(now_()) {
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

/// The first server's command on all of them. One that is nothing is not worth telling.
Server::Command Server::from_first(const Command& command) const {
  const auto& world = session_.backend.world();
  if (world.size() == 1 || (leads_ && command.kind == Command::Kind::none)) return command;
  const auto bytes = command.bytes();
  const auto* begin = reinterpret_cast<const char*>(bytes.data());
  const std::string text = world.broadcast_text(std::string(begin, begin + bytes.size()));
  return Command::from(std::as_bytes(std::span(text)));
}

Server::Command Server::decide() {
  look_around();
  look_for_silence();
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
  command.lost_workers = turns_.ever_lost();
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
  if (leads_ && turns_.heard(worker, now_())) log_.say(name_of(worker) + " is back");
  switch (message.tag) {
    case kGradients:
      return store_.keep(std::move(message));
    case kAsk:
      return turns_.ask(worker);
    case kPush: {
      Push push = Push::from(message.bytes);
      if (turns_.push(worker, push.sequence)) pushes_[w] = std::move(push);
      return;
    }
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
  log_.keep_lock(now);
  const auto votes = watch_.votes();
  stop_ = StopWatch::decide(votes.data());
  if (stop_ != Stop::none) turns_.stop();
}

void Server::look_for_silence() {
  const double dead_after = session_.settings.async.dead_after;
  for (int worker : turns_.lose_silent(now_()))
    log_.say(concat("warning: ", name_of(worker), " has been silent for ", dead_after,
                    " s: going on without it"));
  if (turns_.alive() > 0 || stop_ != Stop::none) return;
  log_.say("warning: no group is left");
  stop_ = Stop::signal;
  turns_.stop(true);
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
  order.ticket = ++tickets_;
  order.exit_code = exit_code_;
  order.lost_workers = turns_.ever_lost();
  const auto& samples = *session_.corpus.train;
  const std::int64_t since = turns_.version() - state_.first_step * stages.pushes();
  const std::int64_t batch = groups_.share
                                 ? stages.batch_of(since)
                                 : worker + groups_.workers * stages.batch_of(turns_.applied()[w]);
  order.batch =
      data::advance(state_.first_batch, batch, session_.settings.data.batch, samples.per_epoch());
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
  command.ends_step = first.position == stages.pushes() - 1;
  for (int worker : action.workers) {
    command.workers.push_back(worker);
    command.sequences.push_back(turns_.grant_of(worker).sequence);
  }
  return command;
}

/// Whose pushes have come to all servers. A worker that died in the middle of a push is waited for
/// as long as any silent one.
std::vector<std::int64_t> Server::present(const Command& command) {
  const double end = now_() + session_.settings.async.dead_after;
  std::vector<double> missing(command.workers.size(), 0);
  for (std::size_t i = 0; i < missing.size(); ++i)
    while (!store_.has(command.workers[i], command.sequences[i], command.update.phase)) {
      missing[i] = now_() > end;
      if (missing[i] > 0) break;
      mailbox_.pause();
      read_mail();
    }
  const auto sums = session_.sum(missing);
  std::vector<std::int64_t> here;
  for (std::size_t i = 0; i < sums.size(); ++i)
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
  if (command.ends_step) store_.finish_step(turns_.step() + 1);
  observers_.step_done();
  if (leads_) gather(command, workers, update.scale, result);
}

/// Books an update.
void Server::gather(const Command& command, const std::vector<std::int64_t>& workers, double scale,
                    const ServerStore::Result& result) {
  const std::size_t phase = command.update.phase;
  const std::size_t phases = runs_.size();
  Gathered& gathered = gathered_[groups_.share ? 0 : static_cast<std::size_t>(workers[0])];
  gathered.grad_norms.resize(phases);
  gathered.numbers.resize(phases);
  gathered.grad_norms[phase] = result.grad_norm;
  gathered.finite = gathered.finite && result.finite;
  const auto& first = pushes_[static_cast<std::size_t>(workers[0])];
  gathered.numbers[phase].assign(first.numbers.size(), 0);
  gathered.targets += first.targets;
  std::vector<int> committed;
  for (std::int64_t worker : workers) {
    const auto& numbers = pushes_[static_cast<std::size_t>(worker)].numbers;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      gathered.numbers[phase][i] += scale * numbers[i];
    committed.push_back(static_cast<int>(worker));
    gathered.stalest = std::max(gathered.stalest, turns_.staleness_of(committed.back()));
  }
  const auto stale = static_cast<std::size_t>(turns_.staleness_of(committed[0]));
  if (staleness_.size() <= stale) staleness_.resize(stale + 1);
  staleness_[stale] += 1;
  runs_[phase] += 1;
  turns_.commit(committed);
  update_state();
  if (command.ends_step) end_step(gathered, workers[0]);
}

void Server::update_state() {
  const auto& stages = store_.stages();
  std::int64_t batches = 0;
  if (groups_.share)
    batches = stages.batches_after(turns_.version() - state_.first_step * stages.pushes());
  else
    for (std::int64_t pushed : turns_.applied()) batches += stages.batches_after(pushed);
  state_.step = turns_.step();
  state_.position = data::advance(state_.first_batch, batches, session_.settings.data.batch,
                                  session_.corpus.train->per_epoch());
  state_.applied = turns_.applied();
}

void Server::end_step(Gathered& gathered, std::int64_t worker) {
  const auto& settings = session_.settings;
  const auto& phases = session_.compiled.task->phases();
  StepRecord record;
  record.step = state_.step;
  record.epoch = pushes_[static_cast<std::size_t>(worker)].epoch;
  record.lr = optim::learning_rate(settings.optim, state_.step);
  for (std::size_t p = 0; p < phases.size(); ++p) {
    const auto& numbers = gathered.numbers[p];
    if (numbers.empty()) continue;  // pushed before this run began
    record.grad_norm = std::hypot(record.grad_norm, gathered.grad_norms[p]);
    record.loss += numbers[0];
    const std::string micro = phases[p].phase.section("micro");
    if (phases.size() > 1) record.metrics.emplace_back(phases[p].phase.section("loss"), numbers[0]);
    const auto names = metric_names(workers_.program, micro);
    for (std::size_t i = 0; i < names.size(); ++i)
      record.metrics.emplace_back(phases[p].phase.section(names[i]), numbers[1 + i]);
  }
  check_finite(gathered, record.loss, record.grad_norm);
  if (diverged_) return;
  if (!groups_.share) {
    record.group = worker;
    record.staleness = gathered.stalest;
  }
  state_.targets += gathered.targets;
  record.unit = session_.feeder->unit();
  record.targets = state_.targets;
  record.skipped = !gathered.finite;
  const double now = now_();
  record.step_seconds = now - last_step_;
  record.targets_per_second =
      static_cast<double>(gathered.targets) / std::max(1e-9, record.step_seconds);
  last_step_ = now;
  watch_.clock().add_step_seconds(record.step_seconds);
  log_.record(record);
  gathered = {};
  const bool is_last = state_.step == settings.train.steps;
  if (session_.feeder->evaluates() && settings.eval.every > 0 &&
      (state_.step % settings.eval.every == 0 || is_last)) {
    state_.evaluation_due = true;
    turns_.want_evaluation();
  }
  save_due_ = is_checkpoint_step();
}

bool Server::is_checkpoint_step() const {
  const auto& config = session_.settings.checkpoint;
  if (config.every > 0 && state_.step % config.every == 0) return true;
  return config.minutes > 0 && now_() - last_save_ >= 60 * config.minutes;
}

void Server::check_finite(const Gathered& gathered, double loss, double norm) {
  if (gathered.finite && std::isfinite(loss)) return;
  const std::string what =
      concat("step ", state_.step, " is not finite: loss ", loss, ", gradient norm ", norm);
  if (session_.settings.train.on_nonfinite != "stop") {
    log_.say("warning: " + what + (gathered.finite ? "" : ". The update was skipped"));
    return;
  }
  std::cerr << "tessera: " << what << ". " << kCureOfDivergence << std::endl;
  diverged_ = true;
  turns_.stop(true);
}

void Server::evaluated(int worker, const Evaluated& result) {
  const bool was_due = turns_.evaluation_due();
  turns_.evaluated(worker);
  if (!was_due || turns_.evaluation_due()) return;  // another group has done it meanwhile
  state_.evaluation_due = false;
  log_.record(result.record, evaluated_step_, result.seconds);
  state_.best_validation = std::min(state_.best_validation, result.record.score());
}

void Server::save(const RunState& state) {
  RunState saved = state;
  if (groups_.share) saved.applied.clear();  // as in a synchronous run
  const Observers::Phase phase(observers_, "checkpoint");
  const double begin = now_();
  const std::string file =
      save_state(session_, saved, start_.data, session_.settings.run_file("checkpoints"));
  saved_step_ = state.step;
  last_save_ = now_();
  watch_.clock().set_save_seconds(last_save_ - begin);
  log_.say(concat("saved ", file, ", ", format_time(last_save_ - begin)));
  // Who spoke meanwhile was not heard.
  turns_.forgive(last_save_);
}

/// The verdict, which the workers learn with the order to stop.
void Server::close() {
  closed_ = true;
  double sum = 0;
  std::int64_t updates = 0;
  std::vector<std::string> counts;
  JsonWriter json;
  json.begin_object().key("step").value(state_.step).key("staleness_counts").begin_array();
  for (std::size_t s = 0; s < staleness_.size(); ++s) {
    json.value(staleness_[s]);
    updates += staleness_[s];
    sum += static_cast<double>(s) * static_cast<double>(staleness_[s]);
    if (staleness_[s] > 0) counts.push_back(concat(s, ": ", with_commas(staleness_[s])));
  }
  json.end_array().key("group_updates").begin_array();
  for (std::int64_t pushed : turns_.applied()) json.value(pushed);
  log_.append(json.end_array().end_object().text());
  if (updates > 0)
    log_.say(concat("updates by staleness  ", join(counts, ", "), "; mean ",
                    sum / static_cast<double>(updates)));
  const auto say = [&](const std::string& line) { log_.say(line); };
  const bool is_done = state_.step >= session_.settings.train.steps && !state_.evaluation_due;
  if (diverged_) {
    exit_code_ = kFailure;
  } else if (is_done) {
    log_.say(concat("done: ", state_.step, " steps, ", with_commas(state_.targets), " ",
                    session_.feeder->unit(), ", ", format_time(watch_.clock().elapsed())));
    if (stop_ == Stop::file) watch_.consume_file();
  } else {
    exit_code_ =
        end_stopped(say, watch_, stop_, start_.restored.resumed && state_.step == steps_before_);
  }
}

}  // namespace tessera::train
