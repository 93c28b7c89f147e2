// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <thread>

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
  RunFolder(const std::string& path, Use use,
            std::chrono::milliseconds pulse = std::chrono::seconds(20));
  /// Gives the lock back.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  std::string metrics() const { return path_ + "/metrics.jsonl"; }

  /// Stores the resolved deck as deck.ini, replaced in one go.
  void store_deck(const std::string& text) const;
  /// Error if another job has taken the lock. That this one lives is shown by a thread every
  /// `pulse`, also while it evaluates, draws or saves for longer than a lock lasts.
  void check_lock() const;

 private:
  void show_life(const std::stop_token& stop, std::chrono::milliseconds pulse) const;

  std::string path_;
  std::string owner_;   // what we wrote into the lock
  std::jthread pulse_;  // runs show_life
};

/// Whether a folder holds a run: metrics or checkpoints.
bool holds_run(const std::string& path);

}  // namespace tessera::io
