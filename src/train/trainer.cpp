// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/text.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/optim/schedule.hpp"
#include "tessera/train/drawing.hpp"
#include "tessera/train/feeding.hpp"
#include "tessera/train/finite.hpp"

namespace tessera::train {

/// The step's small sum over ranks.
struct Trainer::Sums {
  double loss = 0;
  Metrics metrics;
  std::vector<StepResult> results;
  double grad_norm = 0;
  bool finite = true;
  Stop stop = Stop::none;
  std::vector<double> fed;  ///< Feeder::shares
};

namespace {

/// A NaN's sign depends on the compiler; nobody should wonder about it.
double without_sign_of_nan(double value) {
  return std::isnan(value) ? std::abs(value) : value;
}

}  // namespace

Trainer::Trainer(Session& session, RunState& state, const data::DataIdentity& data,
                 StopWatch& watch, io::RunFolder* folder)
    : session_(session),
      state_(state),
      data_(data),
      watch_(watch),
      checkpoints_(session.settings.run_file("checkpoints")),
      feeder_(*session.feeder),
      phases_(make_runners(session, state)),
      log_(session, folder, state.step + 1, session.compiled.report().flops_per_step_all_ranks),
      observers_(session.settings.run.hang_timeout, session.settings.run.trace,
                 *session.collectives),
      first_step_(state.step),
      last_save_(watch.clock().elapsed()) {
  state_.applied.clear();  // counts of an asynchronous run, which end where this one goes on
  feeder_.seek(state.position);
  comm::agree_on(session.backend.world(), [&] { throw_unless_ok(feeder_.status()); });
  session.executor->set_recorder(&observers_);
}

Trainer::~Trainer() {
  session_.executor->set_recorder(nullptr);
}

void Trainer::take_next_batch() {
  const Fed fed = feeder_.next();
  batch_ = fed.batch;
  if (reading_.ok()) reading_ = fed.status;
  step_targets_ += batch_->targets;
}

void Trainer::run_phases() {
  for (auto& runner : phases_) {
    runner.begin_step(state_.step + 1);
    for (std::int64_t run = 0; run < runner.phase().runs; ++run) {
      if (runner.phase().fresh_batch) take_next_batch();
      runner.run(*batch_, run);
    }
  }
}

void Trainer::run_finish() {
  if (!session_.compiled.task->has_finish()) return;
  kernels::Feeds feeds;
  feeds.step = state_.step + 1;
  session_.executor->run("finish", feeds);
}

Trainer::Sums Trainer::reduce() {
  std::uint64_t hash = 0;
  Sums result;
  for (const auto& runner : phases_) {
    hash = hash_combine(hash, runner.fingerprint());
    result.finite = result.finite && runner.finite();
    result.grad_norm = std::hypot(result.grad_norm, runner.grad_norm());
  }
  result.grad_norm = without_sign_of_nan(result.grad_norm);
  const auto mark = static_cast<double>(hash >> 32);  // what all ranks must have been fed alike
  std::vector<double> shares{reading_.ok() ? 0.0 : 1.0, result.finite ? 0.0 : 1.0, mark};
  for (double vote : watch_.votes()) shares.push_back(vote);
  std::size_t next = shares.size();
  for (const auto& runner : phases_)
    shares.insert(shares.end(), runner.shares().begin(), runner.shares().end());
  const auto fed = feeder_.shares();
  shares.insert(shares.end(), fed.begin(), fed.end());
  const auto sums = session_.sum(shares);
  if (sums[0] > 0) comm::agree(session_.backend.world(), reading_);
  const double processes = session_.backend.world().size();
  TESSERA_CHECK(sums[2] == mark * processes && (sums[1] == 0 || sums[1] == processes),
                "ranks have come apart in step ", state_.step + 1,
                ": they were not fed the same scalars, or mirrored results differ");
  result.stop = StopWatch::decide(&sums[3]);
  for (const auto& runner : phases_) {
    result.loss += sums[next];
    for (auto named : runner.results()) {
      named.name = runner.phase().section(named.name);
      result.results.push_back(std::move(named));
    }
    for (const auto& name : runner.names()) {
      const bool is_said = name != "loss" || phases_.size() > 1;
      if (is_said) result.metrics.emplace_back(runner.phase().section(name), sums[next]);
      ++next;
    }
  }
  result.loss = without_sign_of_nan(result.loss);
  result.fed.assign(sums.begin() + static_cast<std::ptrdiff_t>(next), sums.end());
  return result;
}

void Trainer::check_finite(const Sums& sums) {
  if (sums.finite && std::isfinite(sums.loss)) return;
  // The update summed the gradients over ranks; computed once more, they show whose they were.
  std::string where;
  if (!sums.finite) {
    const auto bad = std::find_if(phases_.begin(), phases_.end(),
                                  [](const auto& runner) { return !runner.finite(); });
    where = "; " + describe_nonfinite(session_, bad->repeat_micro_batches(*batch_));
  }
  const std::string what = concat("step ", state_.step + 1, " is not finite: loss ", sums.loss,
                                  ", gradient norm ", sums.grad_norm, where);
  if (session_.settings.train.on_nonfinite == "stop")
    throw Diverged(what + ". " + kCureOfDivergence);
  say("warning: " + what + (sums.finite ? "" : ". The step was skipped on all ranks"));
}

void Trainer::record(const Sums& sums, double seconds) {
  StepRecord record;
  record.step = state_.step;
  record.epoch = batch_->at.epoch;
  record.loss = sums.loss;
  record.grad_norm = sums.grad_norm;
  record.lr = optim::learning_rate(session_.compiled.task->phases().front().optim, state_.step);
  record.metrics = sums.metrics;
  record.results = sums.results;
  record.unit = feeder_.unit();
  record.targets = state_.targets;
  record.skipped = !sums.finite;
  record.step_seconds = seconds;
  record.targets_per_second = static_cast<double>(step_targets_) / std::max(1e-9, seconds);
  feeder_.report(sums.fed, record);
  log_.record(record);
}

Stop Trainer::step() {
  const double begin = watch_.clock().elapsed();
  reading_ = {};
  step_targets_ = 0;
  run_phases();
  run_finish();
  const Sums sums = reduce();
  check_finite(sums);
  state_.step += 1;
  state_.targets += step_targets_;
  state_.skipped = skipped_by(phases_);
  state_.position = feeder_.position();
  state_.evaluation_due = is_evaluation_step();
  const double seconds = watch_.clock().elapsed() - begin;
  watch_.clock().add_step_seconds(seconds);
  record(sums, seconds);
  observers_.step_done();
  log_.check_lock(watch_.clock().elapsed());
  return sums.stop;
}

bool Trainer::is_evaluation_step() const {
  const std::int64_t every = session_.settings.eval.every;
  const bool is_last = state_.step == session_.settings.train.steps;
  return feeder_.evaluates() && every > 0 && (state_.step % every == 0 || is_last);
}

Stop Trainer::evaluate() {
  if (!state_.evaluation_due) return Stop::none;
  const double begin = watch_.clock().elapsed();
  Evaluation result;
  {
    const Observers::Phase phase(observers_, "evaluation");
    result = feeder_.evaluate(false, &watch_);
  }
  if (result.stop != Stop::none) return result.stop;
  const double seconds = watch_.clock().elapsed() - begin;
  state_.evaluation_due = false;
  log_.record(result.record, state_.step, seconds);
  if (result.record.score() < state_.best_validation) {
    state_.best_validation = result.record.score();
    if (session_.settings.checkpoint.best) save_best();
  }
  return Stop::none;
}

void Trainer::save_best() {
  save();
  comm::agree_on(session_.backend.world(), [&] {
    if (session_.backend.is_root()) io::keep_as_best(saved_file_);
  });
}

void Trainer::draw() {
  const std::int64_t every = session_.settings.sample.every;
  const bool is_due = is_done() || (every > 0 && state_.step % every == 0);
  if (!is_due || !can_draw(session_)) return;
  const Observers::Phase phase(observers_, "sample");
  say("drew " + draw_samples(session_, state_.step));
}

bool Trainer::is_checkpoint_step() const {
  const auto& config = session_.settings.checkpoint;
  if (config.every > 0 && state_.step % config.every == 0) return true;
  if (config.minutes <= 0) return false;
  // Rank 0's clock decides for all.
  const bool is_due = watch_.clock().elapsed() - last_save_ >= 60 * config.minutes;
  return session_.sum({session_.backend.is_root() && is_due ? 1.0 : 0.0})[0] > 0;
}

void Trainer::save() {
  if (saved_step_ == state_.step && saved_evaluation_due_ == state_.evaluation_due) return;
  const Observers::Phase phase(observers_, "checkpoint");
  const double begin = watch_.clock().elapsed();
  saved_file_ = save_state(session_, state_, data_, checkpoints_);
  mark_saved();
  last_save_ = watch_.clock().elapsed();
  watch_.clock().set_save_seconds(last_save_ - begin);
  say(concat("saved ", saved_file_, ", ", format_time(last_save_ - begin)));
}

void Trainer::mark_saved() {
  saved_step_ = state_.step;
  saved_evaluation_due_ = state_.evaluation_due;
}

Stop Trainer::poll() const {
  const auto votes = watch_.votes();
  const auto sums = session_.sum({votes.begin(), votes.end()});
  return StopWatch::decide(sums.data());
}

bool Trainer::is_done() const {
  return state_.step >= session_.settings.train.steps;
}

void Trainer::say(const std::string& line) {
  log_.say(line);
}

void Trainer::finish() {
  log_.finish();
  observers_.finish();
}

}  // namespace tessera::train
