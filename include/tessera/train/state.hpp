// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tessera/data/corpus.hpp"
#include "tessera/data/loader.hpp"
#include "tessera/train/phase_runner.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

/// Where a run stands, besides its variables. Saved in each checkpoint.
struct RunState {
  std::int64_t step = 0;     ///< optimizer steps done
  std::int64_t targets = 0;  ///< that counted in them
  data::Position position;   ///< of the next batch
  double best_validation = std::numeric_limits<double>::infinity();
  /// The evaluation that belongs to this step was interrupted: a resumed run begins with it.
  bool evaluation_due = false;
  std::vector<std::int64_t> skipped;  ///< by phase: PhaseRunner::skipped; empty: none
  /// Asynchronous training: batches of group w since `first_batch` are w, w + groups, …
  data::Position first_batch;
  std::int64_t first_step = 0;        ///< `step` then
  std::vector<std::int64_t> applied;  ///< by group: pushes since then; empty: in sync
};

/// A runner for each phase of the session's step, which go on where `state` stands.
std::vector<PhaseRunner> make_runners(Session& session, const RunState& state);
/// What `runners` have skipped, for RunState.
std::vector<std::int64_t> skipped_by(const std::vector<PhaseRunner>& runners);

/// Saves all variables and the state; returns the file. Refuses, with an Error that names the
/// first such variable, to save weights that are not finite.
std::string save_state(const Session& session, const RunState& state,
                       const data::DataIdentity& data, const std::string& folder);

/// What resuming or starting from weights did, for the header.
struct Restored {
  bool resumed = false;
  std::string file;                ///< the checkpoint, if resumed
  bool is_on_disk = false;         ///< the state is the newest checkpoint of this run's own folder
  std::vector<std::string> notes;  ///< one line each
};

/// Gives all variables and `state` what train.resume asks for: values of a checkpoint in `folder`
/// or of a file, else first values, with weights of train.init_from. UserError: identity keys or
/// data that differ, no whole checkpoint, a checkpoint of another model.
Restored restore_state(Session& session, RunState& state, const data::DataIdentity& data,
                       const std::string& folder);

/// For eval and sample: weights and other state of `file`; if it is "", of the newest whole
/// checkpoint of the run, or of train.init_from if the run has none. Returns the file.
std::string load_for_use(Session& session, const std::string& file);

}  // namespace tessera::train
