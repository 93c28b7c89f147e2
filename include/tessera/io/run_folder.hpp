// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace tessera::io {

/// A run's folder (`run.dir`) and the lock that keeps a second job out of it. No MPI here: one
/// process of the job (rank 0) opens it.
///   deck.ini        the resolved deck
///   metrics.jsonl   one line a step
///   checkpoints/    step_00000042.h5, latest, best.h5
///   lock            host, process and job that write here
class RunFolder {
 public:
  enum class Use {
    fresh,      ///< a folder that holds a run is refused
    resume,     ///< a run may be there
    overwrite,  ///< a run that is there is removed
  };

  /// Creates the folder, takes the lock, removes unfinished files of a killed save. UserError if
  /// the folder holds a run under Use::fresh (naming the keys that help), if another job has the
  /// lock (naming it), or if the folder can't be made or written.
  RunFolder(const std::string& path, Use use);
  /// Gives the lock back.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  std::string metrics() const { return path_ + "/metrics.jsonl"; }

  /// Stores the resolved deck as deck.ini, replaced in one go.
  void store_deck(const std::string& text) const;
  /// Shows that the job lives; call at least once a minute. Error if another job has taken the
  /// lock.
  void touch();

 private:
  std::string path_;
  std::string owner_;  // what we wrote into the lock
};

/// Whether a folder holds a run: metrics or checkpoints.
bool holds_run(const std::string& path);

}  // namespace tessera::io
