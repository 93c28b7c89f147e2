// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/worker.hpp"

#include <algorithm>
#include <iostream>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/comm/abort.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/comm/signals.hpp"
#include "tessera/train/evaluation.hpp"
#include "tessera/train/experience.hpp"
#include "tessera/train/feeding.hpp"
#include "tessera/train/wall_clock.hpp"

namespace tessera::train {
namespace {

/// A group's ranks write a trace of their own.
std::string trace_file(const Session& session, std::int64_t index) {
  const std::string& file = session.settings.run.trace;
  return file.empty() ? "" : concat(file, ".group", index);
}

template <class T>
void subtract(std::vector<std::byte>& values, const std::vector<std::byte>& from) {
  for (std::size_t i = 0; i < values.size(); i += sizeof(T)) {
    T now, before;
    std::memcpy(&now, &values[i], sizeof(T));
    std::memcpy(&before, &from[i], sizeof(T));
    now -= before;
    std::memcpy(&values[i], &now, sizeof(T));
  }
}

}  // namespace

/// Between the steps of a section a worker has the chance to show that it lives.
class Worker::Pulse final : public runtime::Recorder {
 public:
  explicit Pulse(Worker& worker) : worker_(worker) {}
  void begin(const std::string& section, const program::Step& step) override {
    worker_.show_life();
    worker_.observers_.begin(section, step);
  }
  void end(const std::string& section, const program::Step& step) override {
    worker_.observers_.end(section, step);
  }

 private:
  Worker& worker_;
};

Worker::Worker(Session& session, const Compiled& servers, const Groups& groups, std::int64_t index,
               comm::Mailbox& mailbox)
    : session_(session),
      servers_(servers),
      groups_(groups),
      index_(index),
      mailbox_(mailbox),
      stages_(*session.compiled.task),
      pulls_(servers.program, session.compiled.program),
      gradients_(session.compiled.program, servers.program),
      changes_(session.compiled.program, servers.program),
      observers_(session.settings.run.hang_timeout, trace_file(session, index),
                 *session.collectives),
      pulse_(std::make_unique<Pulse>(*this)),
      speaks_(session.backend.is_root()) {
  for (const auto& update : session.compiled.task->phases()) runners_.emplace_back(session, update);
  for (const auto& traffic : stages_.traffic) {
    pulls_.add(traffic.pulled);
    gradients_.add(traffic.gradients);
    changes_.add(traffic.states);
  }
  session.executor->set_recorder(pulse_.get());
  // Inside a group ranks wait for each other, who may be lost.
  if (groups.group > 1 && session.executor->local_ranks() == 1) {
    double patience = session.settings.async.dead_after;
    if (session.settings.run.hang_timeout > 0)  // or word of an evaluation comes too late
      patience = std::min(patience, session.settings.run.hang_timeout);
    waiting_ = std::make_unique<comm::WhileWaiting>(patience / 8, [this] { while_waiting(); });
  }
}

Worker::~Worker() {
  session_.executor->set_recorder(nullptr);
}

std::int64_t Worker::in_group(int local_rank) const {
  return session_.collectives->local_ranks()[static_cast<std::size_t>(local_rank)];
}

int Worker::rank_of(int local_rank) const {
  return static_cast<int>(groups_.first_rank(index_) + in_group(local_rank));
}

void Worker::send_to_first(Tag tag, std::vector<std::byte> bytes) {
  mailbox_.send({rank_of(0), 0, tag, std::move(bytes)});
}

/// Each rank for itself: one that is lost must not hide behind the others.
void Worker::show_life() {
  if (comm::pending_signal() != 0 && !std::exchange(told_signal_, true)) send_to_first(kSignal, {});
  const double now = seconds_since_start();
  if (now - last_pulse_ < session_.settings.async.dead_after / 8) return;
  last_pulse_ = now;
  for (int r = 0; r < session_.executor->local_ranks(); ++r)
    mailbox_.send({rank_of(r), 0, kPulse, {}});
}

/// Called in the midst of a collective of the group, which does not end if one of its ranks is
/// lost. MPI works on the memory of this one's steps, so nothing is unwound.
void Worker::while_waiting() {
  show_life();
  read_mail();
  if (!is_broken()) return;
  mailbox_.flush(1);
  comm::leave_job(0);
}

void Worker::read_mail() {
  for (int r = 0; r < session_.executor->local_ranks(); ++r)
    while (auto message = mailbox_.receive(rank_of(r))) {
      if (message->tag == kGrant)
        ordered_ = Reader(message->bytes).get<WorkOrder>();
      else if (message->tag == kLost)
        leave(Reader(message->bytes).get<int>());
      else if (message->tag != kPulse)
        weights_[{message->from, r}] = std::move(message->bytes);
      else if (state_ == State::waiting || state_ == State::pulling)
        observers_.others_work();
    }
}

void Worker::leave(int lost) {
  if (is_broken()) return;
  broken_by_ = lost;
  state_ = State::over;
  std::cerr << concat("tessera: rank ", rank_of(0), ": rank ", lost,
                      " of this group is lost; leaving\n");
}

bool Worker::advance() {
  show_life();
  switch (state_) {
    case State::idle:
      if (speaks_) send_to_first(kAsk, {});
      state_ = State::waiting;
      return true;
    case State::waiting:
      return take_order();
    case State::pulling:
      return take_weights();
    case State::working:
      work();
      state_ = State::idle;
      return true;
    default:
      return false;
  }
}

/// The first rank gets the order, the others wait for it inside the group.
bool Worker::take_order() {
  read_mail();
  if (is_broken() || (speaks_ && !ordered_)) return is_broken();
  if (ordered_) order_ = *ordered_;
  ordered_.reset();
  session_.backend.world().broadcast(std::as_writable_bytes(std::span(&order_, 1)));
  if (order_.save > 0) {
    const Observers::Phase phase(observers_, "checkpoint");
    save_experience(session_, index_, order_.save);
  }
  state_ = order_.grant.stop ? State::over : State::pulling;
  if (order_.grant.stop) observers_.finish();
  return true;
}

/// Takes the weights when all servers' parts have come, so that no step sees a mixture.
bool Worker::take_weights() {
  read_mail();
  if (is_broken()) return true;
  const std::size_t list =
      order_.grant.evaluate ? stages_.evaluation()
                            : stages_.order[static_cast<std::size_t>(order_.grant.position)].phase;
  const auto visit = [&](const auto& use) {
    for (int r = 0; r < session_.executor->local_ranks(); ++r)
      for (std::int64_t s = 0; s < groups_.servers; ++s) {
        const auto& parts = pulls_.parts(list, s, in_group(r));
        if (!parts.empty() && !use(r, parts, weights_[{static_cast<int>(s), r}])) return false;
      }
    return true;
  };
  const auto has_come = [&](int, const auto&, const std::vector<std::byte>& bytes) {
    return !bytes.empty() && Reader(bytes).get<std::int64_t>() == order_.ticket;
  };
  if (!visit(has_come)) return false;
  visit([&](int r, const auto& parts, const std::vector<std::byte>& bytes) {
    Reader reader(bytes);
    reader.get<std::int64_t>();
    for (const auto& part : parts) unpack(*session_.executor, r, part, reader);
    return true;
  });
  weights_.clear();
  state_ = State::working;
  return true;
}

void Worker::work() {
  if (order_.grant.evaluate)
    evaluate();
  else
    compute();
  observers_.step_done();
}

void Worker::evaluate() {
  const double begin = seconds_since_start();
  // Of wall time and stop file the servers judge.
  const StopWatch signals(false, WallClock(0, 0), "");
  Evaluation evaluation;
  {
    const Observers::Phase phase(observers_, "evaluation");
    evaluation = session_.feeder->evaluate(false, &signals);
  }
  if (evaluation.stop != Stop::none) return;  // it stays due
  Evaluated result;
  result.record = std::move(evaluation.record);
  result.version = order_.grant.version;
  result.seconds = seconds_since_start() - begin;
  if (speaks_) send_to_first(kEvaluated, result.bytes());
}

/// Experience, or the batch of the order.
void Worker::take_batch(const Stage& stage) {
  if (!session_.settings.model->acts()) {
    read_batch();
    batch_ = &*read_;
  } else if (!batch_ || session_.compiled.task->phases()[stage.phase].phase.fresh_batch) {
    // Without a batch it goes on in the midst of a step.
    batch_ = session_.feeder->next().batch;
  }
}

/// Mostly the loader's next one, which it has read ahead.
void Worker::read_batch() {
  const auto& grant = order_.grant;
  const bool same_share = read_ && read_->share == grant.share && read_->shares == grant.shares;
  if (same_share && read_->at == order_.batch) return;
  if (!loader_ || !same_share) {
    data::LoaderConfig config = loader_config(session_, 0);
    config.stride = groups_.share ? 1 : groups_.workers;
    config.share = grant.share;
    config.shares = grant.shares;
    loader_ = std::make_unique<data::Loader>(
        session_.corpus.train, config, session_.inputs(session_.compiled.task->first_micro()));
  }
  if (loader_->position() != order_.batch) loader_->seek(order_.batch);
  // A group that cannot read ends the job: its ranks agree on that now, before they compute.
  comm::agree(session_.backend.world(), loader_->status());
  read_ = loader_->next();
}

/// What the feeder adds to the lines of steps, when a step ends.
StepRecord Worker::report_experience(const Stage& stage) {
  StepRecord record;
  if (!session_.settings.model->acts() || &stage != &stages_.order.back()) return record;
  const double now = seconds_since_start();
  record.step_seconds = now - last_step_;
  last_step_ = now;
  session_.feeder->report(session_.sum(session_.feeder->shares()), record);
  return record;
}

std::vector<double> Worker::sum_shares(const PhaseRunner& runner) const {
  auto shares = runner.shares();
  const auto mark = static_cast<double>(runner.fingerprint() >> 32);
  shares.push_back(mark);
  auto sums = session_.sum(shares);
  TESSERA_CHECK(sums.back() == mark * session_.backend.world().size(),
                "ranks of a group have come apart in step ", order_.step,
                ": mirrored results differ");
  sums.pop_back();
  return sums;
}

void Worker::compute() {
  const Stage& stage = stages_.order[static_cast<std::size_t>(order_.grant.position)];
  take_batch(stage);
  keep_states(stage.phase);
  auto& runner = runners_[stage.phase];
  runner.begin_step(order_.step);
  runner.compute(*batch_, stage.run);
  Push result;
  result.sequence = order_.grant.sequence;
  result.epoch = batch_->at.epoch;
  result.targets = batch_->targets;
  result.numbers = sum_shares(runner);
  result.results = runner.results();
  const StepRecord record = report_experience(stage);
  result.metrics = record.metrics;
  result.counts = record.counts;
  push(stage.phase);
  if (speaks_) send_to_first(kPush, result.bytes());
}

void Worker::push(std::size_t phase) {
  for (int r = 0; r < session_.executor->local_ranks(); ++r)
    for (std::int64_t s = 0; s < groups_.servers; ++s) {
      const auto& parts = gradients_.parts(phase, in_group(r), s);
      if (parts.empty() && changes_.parts(phase, in_group(r), s).empty()) continue;
      Writer message;
      message.put(order_.ticket);
      for (const auto& part : parts) pack(*session_.executor, r, part, message);
      pack_states(phase, r, s, message);
      mailbox_.send({rank_of(r), static_cast<int>(s), kGradients, message.take()});
    }
}

/// Remembers what pushed states were before the phase changes them.
void Worker::keep_states(std::size_t phase) {
  auto& executor = *session_.executor;
  const auto& program = session_.compiled.program;
  states_.clear();
  for (const auto& name : stages_.traffic[phase].states)
    for (std::size_t v = 0; v < program.variables.size(); ++v) {
      if (program.variables[v].variable.name != name) continue;
      for (int r = 0; r < executor.local_ranks(); ++r) {
        const int variable = static_cast<int>(v);
        auto& kept = states_[{r, name}];
        kept.resize(static_cast<std::size_t>(volume(executor.variable_box(variable, r))) *
                    bytes_of(program.variables[v].variable.spec.dtype));
        executor.read_variable(variable, r, kept.data());
      }
    }
}

/// Appends the changes of states: what they are less what they were.
void Worker::pack_states(std::size_t phase, int local_rank, std::int64_t server, Writer& to) {
  auto& executor = *session_.executor;
  for (const auto& part : changes_.parts(phase, in_group(local_rank), server)) {
    const auto& variable =
        session_.compiled.program.variables[static_cast<std::size_t>(part.from)].variable;
    const auto& before = states_.at({local_rank, variable.name});
    std::vector<std::byte> change(before.size());
    executor.read_variable(part.from, local_rank, change.data());
    if (variable.spec.dtype == DType::f64)
      subtract<double>(change, before);
    else
      subtract<float>(change, before);
    pack_from(change.data(), executor.variable_box(part.from, local_rank), variable.spec.dtype,
              part.box, to);
  }
}

}  // namespace tessera::train
