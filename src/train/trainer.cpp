// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/trainer.hpp"

#include <unistd.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/base/text.hpp"
#include "tessera/comm/agree.hpp"
#include "tessera/optim/schedule.hpp"
#include "tessera/train/feeding.hpp"
#include "tessera/train/finite.hpp"

namespace tessera::train {

/// The step's small sum over ranks.
struct Trainer::Sums {
  double loss = 0;
  Metrics metrics;
  double grad_norm = 0;
  bool finite = true;
  Stop stop = Stop::none;
};

namespace {

data::LoaderConfig endless(const Settings& settings) {
  data::LoaderConfig config;
  config.batch = settings.data.batch;
  config.micro_batches = settings.train.micro_batches;
  config.ahead = settings.data.ahead;
  return config;
}

bool is_terminal() {
  return ::isatty(STDOUT_FILENO) == 1;
}

/// 32 bits of what all ranks must have been fed alike.
double fingerprint(std::int64_t step, const data::Batch& batch, double lr) {
  std::uint64_t hash =
      hash_combine(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(batch.at.index));
  hash = hash_combine(hash, std::bit_cast<std::uint64_t>(batch.weight));
  hash = hash_combine(hash, std::bit_cast<std::uint64_t>(lr));
  return static_cast<double>(hash >> 32);
}

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
      folder_(folder),
      checkpoints_(session.settings.run_file("checkpoints")),
      loader_(session.corpus.train, endless(session.settings), session.inputs("micro")),
      progress_(session.out, is_terminal(), state.step + 1, session.settings.train.steps,
                session.settings.run.log_seconds,
                session.compiled.report().flops_per_step_all_ranks),
      observers_(session.settings.run.hang_timeout, session.settings.run.trace,
                 *session.collectives),
      first_step_(state.step),
      last_save_(watch.clock().elapsed()) {
  loader_.seek(state.position);
  comm::agree_on(session.backend.world(), [&] {
    if (folder_) metrics_.emplace(folder_->metrics());
    throw_unless_ok(loader_.status());
  });
  session.executor->set_recorder(&observers_);
}

Trainer::~Trainer() {
  session_.executor->set_recorder(nullptr);
}

double Trainer::run_micro_batches(const data::Batch& batch) {
  auto& executor = *session_.executor;
  loss_shares_.assign(static_cast<std::size_t>(executor.local_ranks()), 0);
  metric_shares_.assign(session_.metrics("micro").size(), 0);
  for (std::size_t micro = 0; micro < batch.tiles.size(); ++micro) {
    const std::string section = micro == 0 ? "micro" : "micro_next";
    set_inputs(session_, section, batch.tiles[micro]);
    kernels::Feeds feeds;
    feeds.step = state_.step + 1;
    feeds.micro = static_cast<std::int64_t>(micro);
    feeds.values["step"] = static_cast<double>(feeds.step);
    feeds.values["inverse_weight"] = 1 / std::max(1.0, batch.weight);
    executor.run(section, feeds);
    for (int r = 0; r < executor.local_ranks(); ++r)
      loss_shares_[static_cast<std::size_t>(r)] += executor.fetch_share(section, "loss", r);
    const auto metrics = metric_shares(session_, section);
    for (std::size_t i = 0; i < metrics.size(); ++i) metric_shares_[i] += metrics[i];
  }
  return std::accumulate(loss_shares_.begin(), loss_shares_.end(), 0.0);
}

Trainer::Sums Trainer::reduce(const data::Batch& batch, double loss, const Status& reading) {
  auto& executor = *session_.executor;
  const double mark = fingerprint(state_.step + 1, batch,
                                  optim::learning_rate(session_.settings.optim, state_.step + 1));
  const double finite = executor.fetch("update", "finite", 0).at(0);
  std::vector<double> shares{loss, reading.ok() ? 0.0 : 1.0, finite == 1 ? 0.0 : 1.0, mark};
  for (double vote : watch_.votes()) shares.push_back(vote);
  const std::size_t first_metric = shares.size();
  shares.insert(shares.end(), metric_shares_.begin(), metric_shares_.end());
  const auto sums = session_.sum(shares);
  if (sums[1] > 0) comm::agree(session_.backend.world(), reading);
  const double processes = session_.backend.world().size();
  TESSERA_CHECK(sums[3] == mark * processes && (sums[2] == 0 || sums[2] == processes),
                "ranks have come apart in step ", state_.step + 1,
                ": they were not fed the same scalars");
  Sums result;
  result.loss = without_sign_of_nan(sums[0]);
  result.grad_norm = without_sign_of_nan(executor.fetch("update", "grad_norm", 0).at(0));
  result.finite = sums[2] == 0;
  result.stop = StopWatch::decide(&sums[4]);
  const auto names = session_.metrics("micro");
  for (std::size_t i = 0; i < names.size(); ++i)
    result.metrics.emplace_back(names[i], sums[first_metric + i] / std::max(1.0, batch.weight));
  return result;
}

void Trainer::check_finite(const Sums& sums) {
  if (sums.finite && std::isfinite(sums.loss)) return;
  // The update summed the gradients over ranks; computed once more, they show whose they were.
  std::string where;
  if (!sums.finite) {
    run_micro_batches(*batch_);
    where = "; " + describe_nonfinite(session_, loss_shares_);
  }
  const std::string what = concat("step ", state_.step + 1, " is not finite: loss ", sums.loss,
                                  ", gradient norm ", sums.grad_norm, where);
  if (session_.settings.train.on_nonfinite == "stop")
    throw Diverged(what +
                   ". No checkpoint was written, the older ones stay. Lower optim.lr, set "
                   "optim.clip_norm, or let such steps pass by train.on_nonfinite = skip");
  say("warning: " + what + (sums.finite ? "" : ". The step was skipped on all ranks"));
}

void Trainer::record(const data::Batch& batch, const Sums& sums, double seconds) {
  StepRecord record;
  record.step = state_.step;
  record.epoch = batch.at.epoch;
  record.loss = sums.loss;
  record.grad_norm = sums.grad_norm;
  record.lr = optim::learning_rate(session_.settings.optim, state_.step);
  record.metrics = sums.metrics;
  record.unit = session_.corpus.train->unit();
  record.targets = state_.targets;
  record.skipped = !sums.finite;
  record.step_seconds = seconds;
  record.targets_per_second = static_cast<double>(batch.targets) / std::max(1e-9, seconds);
  if (metrics_) metrics_->append(record.to_json());
  if (folder_) progress_.show(record);
}

Stop Trainer::step() {
  const double begin = watch_.clock().elapsed();
  Fed fed = take_batch(loader_, batch_);
  batch_ = std::move(fed.batch);
  const double loss = run_micro_batches(*batch_);
  kernels::Feeds feeds;
  feeds.step = state_.step + 1;
  feeds.values["step"] = static_cast<double>(feeds.step);
  feeds.values["lr"] = optim::learning_rate(session_.settings.optim, feeds.step);
  session_.executor->run("update", feeds);
  const Sums sums = reduce(*batch_, loss, fed.status);
  check_finite(sums);
  state_.step += 1;
  state_.targets += batch_->targets;
  state_.position = loader_.position();
  state_.evaluation_due = is_evaluation_step();
  const double seconds = watch_.clock().elapsed() - begin;
  watch_.clock().add_step_seconds(seconds);
  record(*batch_, sums, seconds);
  observers_.step_done();
  keep_lock();
  return sums.stop;
}

void Trainer::keep_lock() {
  constexpr double kInterval = 20;  // seconds; others take a lock over after ten minutes
  const double now = watch_.clock().elapsed();
  if (!folder_ || now - last_touch_ < kInterval) return;
  folder_->touch();
  last_touch_ = now;
}

bool Trainer::is_evaluation_step() const {
  const std::int64_t every = session_.settings.eval.every;
  const bool is_last = state_.step == session_.settings.train.steps;
  return session_.corpus.validation && every > 0 && (state_.step % every == 0 || is_last);
}

Stop Trainer::evaluate() {
  if (!state_.evaluation_due) return Stop::none;
  const double begin = watch_.clock().elapsed();
  Evaluation result;
  {
    const Observers::Phase phase(observers_, "evaluation");
    result = train::evaluate(session_, session_.corpus.validation, session_.settings.eval.batches,
                             &watch_);
  }
  if (result.stop != Stop::none) return result.stop;
  const double seconds = watch_.clock().elapsed() - begin;
  state_.evaluation_due = false;
  if (metrics_) metrics_->append(result.record.to_json(state_.step, seconds));
  say(concat("step ", state_.step, "  ", result.record.to_string(), ", ", format_time(seconds)));
  if (result.record.loss < state_.best_validation) {
    state_.best_validation = result.record.loss;
    if (session_.settings.checkpoint.best) save_best();
  }
  return Stop::none;
}

void Trainer::save_best() {
  save();
  comm::agree_on(session_.backend.world(), [&] {
    if (folder_) io::keep_as_best(saved_file_);
  });
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
  if (folder_) progress_.say(line);
}

void Trainer::finish() {
  if (folder_) progress_.finish();
  observers_.finish();
}

}  // namespace tessera::train
