// SPDX-License-Identifier: BSD-3-Clause
#include "tessera/train/phase_runner.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "tessera/base/hash.hpp"
#include "tessera/optim/schedule.hpp"
#include "tessera/replicate/replica_context.hpp"
#include "tessera/train/feeding.hpp"
#include "tessera/train/stages.hpp"

namespace tessera::train {
namespace {

/// Running statistics and the like, which a step that is skipped must not have touched.
std::vector<std::string> states_to_keep(const Session& session, const replicate::Phase& phase) {
  if (session.settings.train.on_nonfinite != "skip") return {};
  return moved_states(*session.compiled.task, phase);
}

}  // namespace

PhaseRunner::PhaseRunner(Session& session, const replicate::PhaseUpdate& update,
                         std::int64_t skipped)
    : session_(session),
      update_(update),
      states_(*session.executor, states_to_keep(session, update.phase)),
      names_{"loss"},
      skipped_(skipped) {
  if (!session.compiled.program.has_section(micro())) return;  // others compute
  for (const auto& metric : session.metrics(micro())) names_.push_back(metric);
  for (const auto& result : session.results(micro()))
    results_.push_back({result.name, result.is_per_replica, {}});
}

void PhaseRunner::begin_step(std::int64_t step) {
  step_ = step;
  finite_ = true;
  fingerprint_ = static_cast<std::uint64_t>(step);
}

kernels::Feeds PhaseRunner::feeds(std::int64_t micro) const {
  kernels::Feeds feeds;
  // Draws differ between the runs of a step.
  feeds.step = update_index_;
  feeds.micro = micro;
  feeds.values["step"] = static_cast<double>(update_index_ - skipped_);
  return feeds;
}

std::vector<double> PhaseRunner::run_micro_batches(const data::Batch& batch) {
  auto& executor = *session_.executor;
  std::vector<double> losses(static_cast<std::size_t>(executor.local_ranks()), 0);
  shares_.assign(names_.size(), 0);
  for (auto& result : results_) result.values.clear();
  // The sum of fractional weights may be less than 1.
  const double inverse_weight = batch.weight > 0 ? 1 / batch.weight : 1;
  const bool has_last = session_.compiled.program.has_section(phase().section("micro_last"));
  // With stages one section runs all micro-batches, as a pipeline.
  const int held = session_.compiled.program.section(this->micro()).micro_batches;
  for (std::size_t micro = 0; micro < batch.tiles.size(); micro += static_cast<std::size_t>(held)) {
    const bool is_last = micro + 1 == batch.tiles.size() && has_last;
    const std::string section = phase().section(micro == 0 ? "micro"
                                                : is_last  ? "micro_last"
                                                           : "micro_next");
    for (int i = 0; i < held; ++i)
      set_inputs(session_, section, batch.tiles.at(micro + static_cast<std::size_t>(i)), i);
    kernels::Feeds fed = feeds(batch.share + static_cast<std::int64_t>(micro) * batch.shares);
    fed.values["inverse_weight"] = inverse_weight;
    executor.run(section, fed);
    for (int i = 0; i < held; ++i) {
      session_.feeder->ran(section, static_cast<std::int64_t>(micro) + i);
      for (int r = 0; r < executor.local_ranks(); ++r)
        losses[static_cast<std::size_t>(r)] += executor.fetch_share(section, "loss", r, i);
      add_results(section, i, 1 / static_cast<double>(batch.tiles.size()));
      const auto metrics = metric_shares(session_, section, i);
      for (std::size_t k = 0; k < metrics.size(); ++k)
        shares_[1 + k] += metrics[k] * inverse_weight;
    }
  }
  shares_[0] = std::accumulate(losses.begin(), losses.end(), 0.0);
  return losses;
}

void PhaseRunner::add_results(const std::string& section, int micro, double share) {
  for (auto& result : results_) {
    const auto values = session_.executor->fetch(
        section, replicate::ReplicaContext::kResultPrefix + result.name, 0, micro);
    result.values.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      result.values[i] += share * values[i];
      // A NaN's sign depends on who made it.
      const double value = std::isnan(values[i]) ? 0 : values[i];
      fingerprint_ = hash_combine(fingerprint_, std::bit_cast<std::uint64_t>(value));
    }
  }
}

void PhaseRunner::update(std::int64_t run) {
  update_index_ = (step_ - 1) * phase().runs + run + 1;
  auto& executor = *session_.executor;
  const std::string section = phase().section("update");
  kernels::Feeds fed = feeds(0);
  const double lr = optim::learning_rate(update_.optim, step_);
  fed.values["lr"] = lr;
  executor.run(section, fed);
  const bool is_finite = executor.fetch(section, "finite", 0).at(0) == 1;
  if (!is_finite) {
    states_.put_back();
    skipped_ += 1;
  }
  finite_ = finite_ && is_finite;
  grad_norm_ = executor.fetch(section, "grad_norm", 0).at(0);
  fingerprint_ = hash_combine(fingerprint_, std::bit_cast<std::uint64_t>(lr));
}

void PhaseRunner::compute(const data::Batch& batch, std::int64_t run) {
  update_index_ = (step_ - 1) * phase().runs + run + 1;
  fingerprint_ = hash_combine(fingerprint_, static_cast<std::uint64_t>(batch.at.index));
  fingerprint_ = hash_combine(fingerprint_, std::bit_cast<std::uint64_t>(batch.weight));
  run_micro_batches(batch);
}

void PhaseRunner::run(const data::Batch& batch, std::int64_t run) {
  keep_states();
  compute(batch, run);
  update(run);
}

std::vector<double> PhaseRunner::repeat_micro_batches(const data::Batch& batch) {
  keep_states();
  auto losses = run_micro_batches(batch);
  states_.put_back();
  return losses;
}

}  // namespace tessera::train
