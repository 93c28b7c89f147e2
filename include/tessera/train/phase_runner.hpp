// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/data/loader.hpp"
#include "tessera/train/kept_values.hpp"
#include "tessera/train/progress.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

/// Runs one phase of a step (micro-batches and update) and keeps what it gave until it is summed
/// over ranks.
class PhaseRunner {
 public:
  /// `skipped`: updates of this phase that the run has skipped before.
  PhaseRunner(Session& session, const replicate::PhaseUpdate& update, std::int64_t skipped = 0);

  const replicate::Phase& phase() const { return update_.phase; }
  /// Name of the section of the first micro-batch.
  std::string micro() const { return phase().section("micro"); }
  /// Forgets the step before.
  void begin_step(std::int64_t step);
  /// Run number `run` of the phase in this step: one optimizer update. If its gradients are not
  /// finite it leaves weights, slots and, with train.on_nonfinite = skip, states as they were.
  void run(const data::Batch& batch, std::int64_t run);
  /// The two halves of a run, for ranks that do one of them: gradients and shares; the update.
  void compute(const data::Batch& batch, std::int64_t run);
  void update(std::int64_t run);
  /// Before anything moves the states of a run whose update this rank does.
  void keep_states() { states_.keep(); }
  /// Forward and backward once more without update; the local ranks' shares of the loss.
  std::vector<double> repeat_micro_batches(const data::Batch& batch);

  /// False if the gradients of one of the step's runs were not finite; equal on all ranks.
  bool finite() const { return finite_; }
  /// Updates of this phase that were skipped since the run's first step, as it left weights and
  /// slots alone. Rules that count updates (Adam's bias correction) count without them.
  std::int64_t skipped() const { return skipped_; }
  /// Norm of the last run's gradient; equal on all ranks.
  double grad_norm() const { return grad_norm_; }
  /// A number that all ranks must have alike: what they were fed, and the results.
  std::uint64_t fingerprint() const { return fingerprint_; }
  /// Of the last run, whole on every rank.
  const std::vector<StepResult>& results() const { return results_; }
  /// Of the last run, this process's part of loss and metrics. The sums over processes are the mean
  /// loss and the metrics' means.
  const std::vector<double>& shares() const { return shares_; }
  /// Names of `shares`: "loss", then the metrics.
  const std::vector<std::string>& names() const { return names_; }

 private:
  kernels::Feeds feeds(std::int64_t micro) const;
  std::vector<double> run_micro_batches(const data::Batch& batch);
  void add_results(const std::string& section, int micro, double share);

  Session& session_;
  replicate::PhaseUpdate update_;
  KeptValues states_;  // that micro-batches move; none unless steps are skipped
  std::vector<std::string> names_;
  std::int64_t step_ = 0;          // of the run
  std::int64_t update_index_ = 0;  // of this phase since the start, from 1
  std::int64_t skipped_ = 0;
  bool finite_ = true;
  double grad_norm_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::vector<double> shares_;
  std::vector<StepResult> results_;
};

}  // namespace tessera::train
