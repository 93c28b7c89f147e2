// SPDX-License-Identifier: BSD-3-Clause
// What the first server keeps count of and writes down.
#include <algorithm>
#include <cmath>
#include <iostream>

#include "server_command.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/json.hpp"
#include "tessera/base/text.hpp"
#include "tessera/optim/schedule.hpp"
#include "tessera/train/finite.hpp"

namespace tessera::train {

/// Books an update.
void Server::gather(const Command& command, const std::vector<std::int64_t>& workers, double scale,
                    const ServerStore::Result& result) {
  const std::size_t phase = command.update.phase;
  const std::size_t phases = runs_.size();
  Gathered& gathered = gathered_[groups_.share ? 0 : static_cast<std::size_t>(workers[0])];
  gathered.grad_norms.resize(phases);
  gathered.numbers.resize(phases);
  gathered.results.resize(phases);
  gathered.grad_norms[phase] = result.grad_norm;
  gathered.finite = gathered.finite && result.finite;
  const auto& first = pushes_[static_cast<std::size_t>(workers[0])];
  gathered.numbers[phase].assign(first.numbers.size(), 0);
  auto& results = gathered.results[phase] = first.results;
  for (auto& result : results) std::ranges::fill(result.values, 0.0);
  if (session_.compiled.task->phases()[phase].phase.fresh_batch) gathered.targets += first.targets;
  std::vector<int> committed;
  for (std::int64_t worker : workers) {
    const auto& numbers = pushes_[static_cast<std::size_t>(worker)].numbers;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      gathered.numbers[phase][i] += scale * numbers[i];
    const auto& pushed = pushes_[static_cast<std::size_t>(worker)].results;
    for (std::size_t k = 0; k < results.size(); ++k)
      for (std::size_t i = 0; i < results[k].values.size(); ++i)
        results[k].values[i] += pushed[k].values[i] / static_cast<double>(workers.size());
    committed.push_back(static_cast<int>(worker));
    gathered.stalest = std::max(gathered.stalest, turns_.staleness_of(committed.back()));
  }
  const auto stale = static_cast<std::size_t>(turns_.staleness_of(committed[0]));
  if (staleness_.size() <= stale) staleness_.resize(stale + 1);
  staleness_[stale] += 1;
  runs_[phase] += 1;
  turns_.commit(committed);
  update_state();
  if (command.ends_step > 0) end_step(gathered, workers[0]);
}

/// Where so many batches of this run end in the data; experience has no place.
data::Position Server::place(std::int64_t batches) const {
  if (!session_.corpus.train) return state_.first_batch;
  return data::advance(state_.first_batch, batches, session_.settings.data.batch,
                       session_.corpus.train->per_epoch());
}

/// What groups have counted, over all of them.
void Server::add_counts(std::int64_t worker, StepRecord& record) {
  const auto& push = pushes_[static_cast<std::size_t>(worker)];
  counts_[worker] = push.counts;
  for (const auto& metric : push.metrics) record.metrics.push_back(metric);
  for (const auto& [name, count] : push.counts) {
    std::int64_t total = 0;
    for (const auto& [other, counts] : counts_)
      for (const auto& [its_name, its_count] : counts)
        if (its_name == name) total += its_count;
    record.counts.emplace_back(name, total);
  }
}

void Server::update_state() {
  const auto& stages = store_.stages();
  std::int64_t batches = 0;
  if (groups_.share)
    batches = stages.batches_after(turns_.version() - state_.first_step * stages.pushes());
  else
    for (std::int64_t pushed : turns_.applied()) batches += stages.batches_after(pushed);
  state_.step = turns_.step();
  state_.position = place(batches);
  state_.applied = turns_.applied();
}

void Server::end_step(Gathered& gathered, std::int64_t worker) {
  const auto& settings = session_.settings;
  const auto& phases = session_.compiled.task->phases();
  StepRecord record;
  record.step = state_.step;
  record.epoch = pushes_[static_cast<std::size_t>(worker)].epoch;
  record.lr = optim::learning_rate(phases.front().optim, state_.step);
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
    for (auto named : gathered.results[p]) {
      named.name = phases[p].phase.section(named.name);
      record.results.push_back(std::move(named));
    }
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
  add_counts(worker, record);
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
