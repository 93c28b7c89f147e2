// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/io/run_folder.hpp"
#include "tessera/train/evaluation.hpp"
#include "tessera/train/observers.hpp"
#include "tessera/train/phase_runner.hpp"
#include "tessera/train/run_log.hpp"
#include "tessera/train/session.hpp"
#include "tessera/train/state.hpp"
#include "tessera/train/stops.hpp"

namespace tessera::train {

/// Training can't go on: gradients or loss are not finite. Thrown by all ranks alike.
class Diverged : public Error {
 public:
  using Error::Error;
};

/// What the loop does, one function for each of its lines.
class Trainer {
 public:
  Trainer(Session& session, RunState& state, const data::DataIdentity& data, StopWatch& watch,
          io::RunFolder* folder);
  ~Trainer();

  /// One optimizer step: micro-batches, update, and one small sum over ranks that also carries
  /// everybody's reasons to stop, which it returns.
  Stop step();
  /// True after a step behind which the deck asks for an evaluation.
  bool is_evaluation_step() const;
  /// Evaluates on the validation samples; Stop if it was interrupted (it is then due on resume).
  Stop evaluate();
  /// Draws samples after a step behind which the deck asks for them, and after the last.
  void draw();
  bool is_checkpoint_step() const;
  /// Saves unless this very state is on disk already.
  void save();
  /// The present state was loaded from this run's own folder, so it need not be saved.
  void mark_saved();
  /// Reasons to stop outside a step: before the first one.
  Stop poll() const;
  bool is_done() const;
  /// Steps done since the start or resume.
  std::int64_t new_steps() const { return state_.step - first_step_; }
  void say(const std::string& line);
  /// Ends progress line and trace; collective.
  void finish();

 private:
  struct Sums;
  void take_next_batch();
  void run_phases();
  void run_finish();
  Sums reduce();
  void check_finite(const Sums& sums);
  void save_best();
  void record(const Sums& sums, double seconds);

  Session& session_;
  RunState& state_;
  data::DataIdentity data_;
  StopWatch& watch_;
  std::string checkpoints_;
  Feeder& feeder_;
  const data::Batch* batch_ = nullptr;  // the last that was taken
  Status reading_;                      // of this step's batches: the first that failed
  std::int64_t step_targets_ = 0;       // that count in this step's batches
  std::vector<PhaseRunner> phases_;
  RunLog log_;
  Observers observers_;
  std::int64_t first_step_;
  std::int64_t saved_step_ = -1;
  bool saved_evaluation_due_ = false;
  double last_save_ = 0;
  std::string saved_file_;
};

}  // namespace tessera::train
